"""Golden summaries: what they hold, what counts as apart, and that they are fresh."""

from pathlib import Path

import jax
import numpy as np
import pytest

from ladder.errors import LadderError
from ladder.suite.nets import goldens
from ladder.suite.nets.cases import FAMILIES
from ladder.suite.nets.goldens import errors, read, summaries, summary, text
from ladder.suite.nets.running import judge

BIG = np.linspace(-1, 1, 1000)
ALLOWED = {"median": 1e-3, "p90": 1e-2, "worst": 0.1}


def test_a_summary_holds_seeded_samples() -> None:
    a, b = summary("net", "out", BIG), summary("net", "out", BIG)
    assert len(a.samples) == 128
    assert (a.samples == b.samples).all()
    assert summary("net", "small", BIG[:5]).samples.tolist() == BIG[:5].tolist()
    assert (a.count, a.largest, a.non_finite) == (1000, 1.0, 0)


def test_what_is_updated_is_summed_up_as_its_update() -> None:
    after = {"w": np.full(3, 1.5, np.float32), "loss": np.array(2, np.float32)}
    found = summaries("net", {"w": np.ones(3, np.float32)}, after)
    assert found["w"].samples.tolist() == [0.5] * 3
    assert found["loss"].samples.tolist() == [2.0]


def test_an_error_is_relative_to_the_rms() -> None:
    golden, found = {"w": summary("n", "w", BIG)}, {"w": summary("n", "w", 1.01 * BIG)}
    assert errors(found, golden)["w"] == pytest.approx(0.01, rel=0.2)


def test_a_vanishing_output_is_measured_against_the_others() -> None:
    golden = {k: summary("n", k, BIG) for k in "abc"} | {"d": summary("n", "d", 1e-8 * BIG)}
    found = golden | {"d": summary("n", "d", 2e-8 * BIG)}
    assert 0 < errors(found, golden)["d"] < 1e-5


@pytest.mark.parametrize(("found", "error"), [(1e-12, 0.0), (3.0, 0.0), (11.0, np.inf), (np.nan, np.inf)])
def test_an_output_that_is_zero_has_no_relative_error_but_no_garbage_either(found: float, error: float) -> None:
    golden = {k: summary("n", k, BIG) for k in "abc"} | {"d": summary("n", "d", 1e-15 * BIG)}
    assert errors(golden | {"d": summary("n", "d", found * BIG)}, golden)["d"] == error


def test_what_is_not_finite_is_infinitely_apart() -> None:
    golden = {"w": summary("n", "w", BIG)}
    found = errors({"w": summary("n", "w", np.where(BIG > 0.99, np.nan, BIG))}, golden)
    assert found["w"] == np.inf
    assert judge(found, ALLOWED).status == "fail"


def test_a_dropped_output_is_no_pass() -> None:
    with pytest.raises(ValueError, match="b are on one side only"):
        errors({"a": summary("n", "a", BIG)}, {k: summary("n", k, BIG) for k in "ab"})


def test_one_wrong_output_of_many_is_seen_by_the_worst_only() -> None:
    found = {f"{i}": 1e-5 for i in range(40)} | {"stale": 1.0}
    outcome = judge(found, ALLOWED)
    assert outcome.status == "fail"
    assert "stale" in outcome.detail
    assert judge(found, {k: v for k, v in ALLOWED.items() if k != "worst"}).status == "pass"


@pytest.mark.parametrize("damage", ["", "# a comment only\n", "w\t1000\t1.0\t1.0\t0\t0.5\n"])
def test_a_golden_that_is_not_whole_is_refused(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    with pytest.raises(LadderError, match="cannot be read"):
        read("net")
    (tmp_path / "net.tsv").write_text(damage)
    with pytest.raises(LadderError, match="cannot be read"):
        read("net")


def test_the_text_keeps_nine_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    golden = {"w": summary("n", "w", np.pi * BIG)}
    (tmp_path / "net.tsv").write_text(text(golden))
    assert errors(read("net"), golden)["w"] < 1e-8


@pytest.mark.slow
def test_all_committed_goldens_are_fresh() -> None:
    assert goldens.remake(list(FAMILIES), check=True) == []


def test_a_child_that_fails_is_an_error_not_fresh() -> None:
    with pytest.raises(LadderError, match=r"the goldens of nowhere failed \(exit 1\): KeyError"):
        goldens.remake(["nowhere"], check=True)


def test_an_edited_golden_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = dict(read("linear"))
    first = next(iter(edited))
    monkeypatch.setattr(goldens, "FOLDER", tmp_path)
    s = edited[first]
    edited[first] = goldens.Summary(s.count, s.l2 * 1.001, s.largest, s.non_finite, s.samples)
    (tmp_path / "linear.tsv").write_text(text(edited))
    with jax.enable_x64(True):
        assert goldens.stale(["linear"]) == ["linear"]
