"""What people see of a run: the verdict table, REPORT.md, the curves."""

import io
import subprocess
import sys

import pytest
from matplotlib.image import imread

from ladder import records, references, report
from ladder.records import Record
from ladder.verdict import Cell, Finals, judge
from tests.store import made


@pytest.fixture
def failing() -> Record:
    """mlp 9 points below its reference, linear exact."""
    linear, mlp = made.recipes()
    rows = [made.final(linear, s, 9210) for s in (1, 2)] + [made.final(mlp, s, 8870 + s) for s in (1, 2)]
    return records.read(made.complete(rows))


def test_the_verdict_table_has_every_figure_of_a_judgement() -> None:
    run, reference = Finals((9771, 9780, 9700), 10_000), Finals((9749, 9775, 9793), 10_000)
    (judgement,) = judge([Cell("mlp", "sgd", run, reference, 0.25, "mnist-n30")])
    (row,) = report.verdict_table([judgement])
    assert row["mean %"] == "97.50"
    assert row["reference"] == "mnist-n30 (n=3)"
    assert row["min / median / max"] == "9749 / 9775 / 9793"
    assert row["outside by"] == "-49"
    assert row["margin"] == "0.25"
    assert row["verdict"] == judgement.word
    assert row["why"] == judgement.reason
    assert "mean" in row["p"]


def test_a_recorded_judgement_gives_the_same_row_as_the_judgement() -> None:
    record = records.read(made.healthy())
    rows = report.verdict_table(record.manifest["verdicts"], record.finals)
    assert [(row["net"], row["verdict"]) for row in rows] == [("linear", "pass"), ("mlp", "pass")]
    assert rows[0]["finals"] == "9210 9210 9210"


def test_a_cell_without_a_reference_and_without_finals_is_printed() -> None:
    (judgement,) = judge([Cell("mlp", "sgd", Finals((), 10_000), None, 0.25)])
    (row,) = report.verdict_table([judgement])
    assert (row["reference"], row["mean %"], row["min / median / max"]) == ("none", "", "")


def test_the_report_says_verdict_reason_finals_and_where_the_reference_differs(failing: Record) -> None:
    text = report.report_markdown(failing, references.load_all())
    assert text.startswith(f"# {failing.manifest['name']}: fail\n")
    assert "- **mlp sgd: fail.**" in text
    assert "- **linear sgd: pass.**" in text
    assert "| mlp | sgd | 1 | done | 8871/10000 | 88.71 | 88.07-89.32 |" in text
    assert "TF32 was permitted" in text
    assert "`ladder run mnist --seeds 1,2 --platform cpu`" in text
    assert failing.finals[0].recipe_hash in text
    assert "None" not in text


def test_the_report_of_a_faulty_run_says_so_first() -> None:
    record = records.read(made.healthy(fault="nan-at=3"))
    assert "**The fault `nan-at=3` was injected" in report.report_markdown(record).split("## Verdicts")[0]


def test_a_cell_with_a_bar_does_not_break_the_markdown_table() -> None:
    assert report.markdown([{"a": "x | y"}]).splitlines()[-1] == "| x \\| y |"


def test_curves_are_a_picture_of_900_pixels(failing: Record) -> None:
    picture = imread(io.BytesIO(report.curves_png(failing, references.load_all())))
    assert picture.shape[1] == 900
    blue = (picture[..., 2] > 0.6) & (picture[..., 0] < 0.5)
    orange = (picture[..., 0] > 0.9) & (picture[..., 2] < 0.85) & (picture[..., 1] > 0.5)
    assert blue.sum() > 100, "no line of a seed"
    assert orange.sum() > 100, "no band of the reference"


def test_a_run_without_epochs_has_curves_too() -> None:
    record = records.read(made.complete([], made.recipes(["mlp"])))
    assert report.curves_png(record).startswith(b"\x89PNG")


def test_the_report_needs_matplotlib_for_curves_only() -> None:
    code = "import sys, ladder.report; assert 'matplotlib' not in sys.modules; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
