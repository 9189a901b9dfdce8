"""PLATFORMS.md: cells come from kept records, virtual devices fill none, what others published stands apart."""

import json
from pathlib import Path
from typing import Any

import pytest

from ladder import paths, support
from ladder.cli import app, run_app
from ladder.errors import LadderError
from ladder.support import RUNGS, Page
from scripts import published_platforms
from tests.conftest import REPO
from tests.store import made

CPU = [{"device": "cpu:0", "device_kind": "cpu"}]
CARD = [{"device": "cuda:0", "device_kind": "a card"}]


def kept(**changed: Any) -> Path:
    """A healthy mnist run, kept."""
    path = made.healthy(changed.pop("shift", 0), **{"devices": CPU, **changed})
    target = paths.runs() / "kept" / path.name
    target.parent.mkdir(exist_ok=True)
    return path.rename(target)


def suite(results: str, **changed: Any) -> Path:
    """A suite's record: its manifest and results."""
    path = kept(rung="suite", recipes=[], **changed)
    (path / support.RESULTS).write_text(results)
    return path


def page() -> Page:
    return support.read(paths.runs())


def row(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(start))


def test_a_cell_is_the_last_kept_run_with_its_verdict_and_record() -> None:
    kept(started="2026-11-30T00:00:00Z")
    last = kept(started="2026-12-01T00:00:00Z", shift=-900)
    made.healthy(devices=CPU, started="2026-12-02T00:00:00Z")  # local, not kept
    cell = f"2026-12-01 · fail · linear, mlp; 3 seeds ([record](runs/kept/{last.name}/))"
    assert row(support.markdown(page()), "| `cpu` ") == (
        f"| `cpu` | Plain CPU, through XLA | testbox | - | {cell} | - | - | - | [cpu.md](deploy/cpu.md) |"
    )


def test_every_platform_has_a_row_and_what_cannot_run_says_why() -> None:
    text = support.markdown(page())
    for p in page().profiles:
        assert row(text, f"| `{p.name}` ").count("|") == 10
    assert "n/a: one 8 GB board" in row(text, "| `cuda-tegra` ")
    assert "n/a: collectives exist only on the PJRT path" in row(text, "| `iree-cuda` ")


def test_every_box_has_a_row_of_its_own() -> None:
    kept(box="ares")
    kept(box="mars")
    assert page().boxes("cpu") == ["ares", "mars"]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"profile": "cuda-desktop", "devices": CPU}, "it ran on cpu:0"),
        ({"profile": "iree-cuda", "devices": [{"device": "local-task:0"}]}, "it ran on local-task:0"),
        ({"profile": "cuda-desktop", "devices": []}, "no device is recorded"),
        ({"virtual_devices": 4}, "4 virtual devices"),
        ({"platform": {"virtual_devices": 2, "packages": {}}}, "2 virtual devices"),
    ],
)
def test_virtual_devices_fill_no_cell_and_are_listed_as_virtual(facts: dict[str, Any], why: str) -> None:
    kept(**facts)
    found = page()
    assert all(found.last(p.name, "testbox", rung) is None for p in found.profiles for rung in RUNGS)
    assert f"pass (virtual: {why})" in support.markdown(found)


def test_a_card_fills_its_cell() -> None:
    kept(profile="cuda-desktop", devices=CARD)
    found = page().last("cuda-desktop", "testbox", "mnist")
    assert found
    assert found.word == "pass"


def test_a_suite_run_tells_its_counts_tiers_and_stack() -> None:
    platform = {
        "packages": {"jax": "0.11.1"},
        "triple": {"jax": "0.11.1", "jaxlib": "0.11.1", "jax-cuda12-pjrt": "0.11.1"},
        "devices": ["RTX 4090", "RTX 4090"],
        "driver": "580.1",
        "virtual_devices": 0,
    }
    results = "test\ttier\tstatus\nsmi\t0\tpass\ndp\t1\tskip\nlinear\t2\tpass\n"
    path = suite(results, profile="cuda-desktop", devices=CARD, platform=platform)
    text = support.markdown(page())
    lines = [line for line in text.splitlines() if line.startswith("| 2026") and "2× RTX 4090" in line]
    assert lines == [
        f"| {path.name[:10]} | testbox | cuda-desktop | 2× RTX 4090 | 580.1 | jax-cuda12-pjrt 0.11.1 | 0.11.1 "
        f"| `cccccccc` | 0–2 | 2 pass, 1 skip | pass | [record](runs/kept/{path.name}/) |"
    ]
    assert "pass · 2 pass, 1 skip" in row(text, "| `cuda-desktop` ")


def test_a_suite_without_a_test_is_an_error_not_a_green_cell() -> None:
    path = suite("test\ttier\tstatus\n")
    with pytest.raises(LadderError, match=rf"kept record {path.name} cannot be read: .* holds no test"):
        page()


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_damaged_kept_record_is_named_and_never_left_out(text: str) -> None:
    path = kept()
    (path / "manifest.json").write_text(text)
    with pytest.raises(LadderError, match=f"kept record {path.name} cannot be read"):
        page()


def test_a_damaged_published_record_is_named() -> None:
    (paths.runs() / "published").mkdir(parents=True)
    (paths.runs() / "published" / "theirs.toml").write_text("source = 'x'\n")
    with pytest.raises(LadderError, match=r"published record theirs\.toml cannot be read: 'rows'"):
        page()


def test_the_page_is_the_same_for_the_same_records() -> None:
    kept()
    assert support.markdown(page()) == support.markdown(page())


def test_the_committed_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_RUNS", str(REPO / "runs"))
    assert support.markdown(page()) == (REPO / "PLATFORMS.md").read_text()


def test_check_is_red_when_the_page_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "PLATFORMS.md"
    assert run_app(app, ["platforms", "--check", "--file", str(file)]) == 1
    assert run_app(app, ["platforms", "--file", str(file)]) == 0
    assert run_app(app, ["platforms", "--check", "--file", str(file)]) == 0
    kept()
    capsys.readouterr()
    assert run_app(app, ["platforms", "--check", "--file", str(file)]) == 1
    assert capsys.readouterr().out == "PLATFORMS.md is stale\nnext: ladder platforms, and commit it\n"
    assert run_app(app, ["platforms", "--check", "--json", "--file", str(file)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["current"] is False
    assert [r["verdict"] for r in told["platforms"] if r["platform"] == "cpu"] == [None, "pass", None, None, None]


def test_what_others_published_is_all_there_and_stands_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDER_RUNS", str(REPO / "runs"))
    found = page()
    assert [(r["platform"], r["title"].split(" —")[0]) for r in found.published["rows"]] == [
        ("cuda-desktop", "4× RTX 4060 Ti"),
        ("cuda-desktop", "4× RTX 3060"),
        ("cuda-tegra", "Jetson Orin Nano 8 GB"),
        ("rocm", "AMD Radeon RX 7900 XTX 24 GB"),
        ("xpu", "Intel Arc Pro B50 16 GB"),
        ("metal", "Apple M1 MacBook Air"),
        ("iree-cuda", "IREE 3.12"),
    ]
    assert len(found.published["suite_runs"]) == 15
    measured, _, published = support.markdown(found).partition("## Published by others")
    assert "RTX 4060 Ti" not in measured
    assert "22 pass, tiers 0–2" in published
    assert "](runs/platform" not in published  # what lies in another repository is no link here
    assert "/home/" not in published


CELLS = {
    "platform": "a card",
    "env.sh profile": "rocm / desktop / `x`",
    "plugin": "p in `/home/ada/.venv`",
    "runbook": "[R.md](deploy/R.md)",
    "suite": "2026-10-06 · ok ([r](runs/r.tsv))",
    **dict.fromkeys(("mnist", "cifar", "imagenette"), "-"),
    "imagenet": "n/a: one card",
}
PAGE = f"""
| {" | ".join(CELLS)} |
|{"---|" * len(CELLS)}
| {" | ".join(CELLS.values())} |

| date | host | GPUs | pass | xfail | fail | skip | |
|---|---|---|---|---|---|---|---|
| 2026-10-06 | x | 1× a card | 21 | 0 | 2 | 3 | [❌](runs/r.tsv) |
"""


def test_a_published_page_is_read_as_data() -> None:
    matrix, runs = published_platforms.tables(PAGE)
    assert published_platforms.row(matrix[0]) == {
        "platform": "rocm",
        "title": "a card",
        "published_as": "rocm / desktop / `x`",
        "plugin": "p in `.venv`",
        "runbook": "R.md `deploy/R.md`",
        "suite": {"date": "2026-10-06", "text": "ok (r `runs/r.tsv`)", "records": ["runs/r.tsv"]},
        "imagenet": {"not_applicable": "one card"},
    }
    run = published_platforms.suite_run(runs[0])
    assert (run["fail"], run["green"], run["record"]) == (2, False, "runs/r.tsv")


def test_a_published_cell_without_a_date_is_refused() -> None:
    matrix, _ = published_platforms.tables(PAGE.replace("2026-10-06 · ok", "lately · ok"))
    with pytest.raises(ValueError, match="a cell begins with no date: lately"):
        published_platforms.row(matrix[0])
