"""The early alarm: no healthy run more often than its rate, and a faulty one while it is still running."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ladder import alarm, records, references
from ladder.alarm import LEAST_CURVES, RATE, bands, limits, raised
from ladder.pool.events import Event
from ladder.pool.pool import Cancelled
from ladder.recipes import Recipe, rung_recipes
from ladder.request import Request
from ladder.run import Run, drive

RUNS = 400
Curves = np.ndarray  # [curves, epochs]

# Test scores of the mlp on the real MNIST by epoch, seed 101: two cores, one run each, `ladder run mnist --nets mlp
# --fault FAULT`. A gradient scaled by 1.5 is, under plain SGD, a rate of 0.15 for 0.1.
HEALTHY = (9227, 9491, 9601, 9653, 9673, 9689, 9708, 9729, 9740, 9755, 9761, 9773)
FAULTY = {
    "scaled-gradient=1.5": (9312, 9590, 9657, 9677, 9710, 9741, 9760, 9767, 9770, 9786, 9792, 9793),
    "stale=fc2/w": (9207, 9391, 9495, 9554, 9605, 9647, 9670, 9689, 9704, 9718, 9733, 9743),
}


def shipped(name: str, net: str) -> Curves:
    """The 30 epoch curves of a committed reference."""
    (reference,) = (r for r in references.load_all() if r.name == name)
    (part,) = (p for p in reference.parts if p.net == net)
    return np.array([f.epoch_correct for f in part.finals], np.float64)


def alarmed(reference: Curves, run: Curves) -> bool:
    """Whether a run of these trials has an alarm at any epoch."""
    low, high = limits(reference, len(run))
    return bool(((run < low) | (run > high)).any())


def at_most(times: int, of: int) -> None:
    """Fails when the count refutes the stated rate at 0.1 %."""
    assert times <= binom.ppf(0.999, of, RATE), f"{times} of {of} healthy runs had an alarm; stated: {RATE:.0%}"


SHIPPED = [(name, net) for name in ("mnist-n30", "mnist5k-n30") for net in ("mlp", "cnn")]


@pytest.mark.parametrize(("name", "net"), SHIPPED)
def test_each_shipped_curve_left_out_in_turn_is_seldom_flagged_by_the_others(name: str, net: str) -> None:
    curves = shipped(name, net)
    times = sum(alarmed(np.delete(curves, i, 0), curves[i : i + 1]) for i in range(len(curves)))
    assert times <= RATE * len(curves)


@pytest.mark.parametrize(("name", "net"), SHIPPED)
@pytest.mark.parametrize(("n", "trials"), [(27, 3), (25, 1), (10, 3), (5, 3)])
def test_runs_drawn_from_the_shipped_curves_keep_the_rate_skewed_as_they_are(
    name: str, net: str, n: int, trials: int
) -> None:
    """Drawn without replacement, the rest or a part of it the reference. The cnn's curves spike down for an epoch."""
    curves, draw = shipped(name, net), np.random.default_rng(n)
    shuffled = [curves[draw.permutation(len(curves))] for _ in range(RUNS)]
    at_most(sum(alarmed(c[:n], c[n : n + trials]) for c in shuffled), RUNS)


@pytest.mark.parametrize(("n", "epochs", "trials"), [(30, 12, 1), (30, 12, 6), (5, 40, 1), (5, 40, 6), (10, 80, 3)])
@pytest.mark.parametrize("together", [0.0, 0.9])  # the correlation of neighbouring epochs
@pytest.mark.parametrize("freedom", [3, 1000])  # of Student's t; 1000: Gaussian
def test_the_rate_holds_per_run_however_many_epochs_and_trials_it_has(
    n: int, epochs: int, trials: int, together: float, freedom: int
) -> None:
    draw = np.random.default_rng(epochs)
    noise = draw.standard_t(freedom, (RUNS, n + trials, epochs))
    for e in range(1, epochs):
        noise[..., e] = together * noise[..., e - 1] + np.sqrt(1 - together**2) * noise[..., e]
    at_most(sum(alarmed(run[:n], run[n:]) for run in 9000 + 30 * noise), RUNS)


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_curve_is_flagged_in_its_first_two_epochs_and_the_healthy_one_never(fault: str) -> None:
    """As one of three trials."""
    low, high = limits(shipped("mnist-n30", "mlp"), 3)
    outside = [e for e, x in enumerate(FAULTY[fault], 1) if not low[e - 1] <= x <= high[e - 1]]
    assert outside[0] <= 2
    assert all(low[e] <= x <= high[e] for e, x in enumerate(HEALTHY))


def test_five_curves_find_a_collapse_and_little_else() -> None:
    curves = shipped("mnist-n30", "mlp")[:LEAST_CURVES]
    assert alarmed(curves, np.array([HEALTHY[:3] + (980,) * 9, HEALTHY, HEALTHY]))
    assert not alarmed(curves, np.array([FAULTY["scaled-gradient=1.5"], HEALTHY, HEALTHY]))


def test_curves_that_never_vary_allow_one_image_of_rounding() -> None:
    low, high = limits([(829, 848)] * 30, 3)
    assert (low, high) == ((828, 847), (830, 849))


@pytest.fixture
def mlp() -> Recipe:
    """The mlp's recipe on the published MNIST, that mnist-n30 is bound to."""
    return next(r for r in rung_recipes("mnist") if r.name == "mlp-sgd")


def test_a_band_is_of_the_reference_with_the_most_whole_curves_of_that_recipe(mlp: Recipe) -> None:
    every = references.load_all()
    assert (bands([mlp], every, 3)[mlp.hash].reference, bands([mlp], every, 3)[mlp.hash].curves) == ("mnist-n30", 30)
    (source,) = (r for r in every if r.name == "mnist-n30")
    (part,) = (p for p in source.parts if p.hash == mlp.hash)

    def cut(name: str, **changes: Any) -> references.Reference:
        finals = tuple(replace(f, **changes) if i >= 4 else f for i, f in enumerate(part.finals))
        return replace(source, name=name, parts=(replace(part, finals=finals),))

    four = [cut("diverged", diverged=True), cut("short", epoch_correct=part.finals[0].epoch_correct[:-1])]
    assert bands([mlp], four, 3) == {}
    assert alarm.told(mlp, {}) == "no reference has 5 epoch curves of it: its epochs are not watched"
    assert bands([replace(mlp, epochs=3)], every, 3) == {}


def test_trials_of_recipes_that_are_not_watched_do_not_widen_the_bands(mlp: Recipe) -> None:
    linear = next(r for r in rung_recipes("mnist") if r.name == "linear-sgd")
    every = references.load_all()
    assert bands([linear], every, 3) == {}  # one published curve
    assert bands([mlp, linear], every, 3) == bands([mlp], every, 3)


def test_an_alarm_tells_score_band_and_reference(mlp: Recipe) -> None:
    found = bands([mlp], references.load_all(), 3)
    told = raised(found, mlp, 7, {"epoch": 1, "correct": 9312, "total": 10000})
    assert told is not None
    line = Event("alarm", -1, 0.0, "mlp-sgd-s7", 1, told).line()
    assert line == (
        f"mlp-sgd-s7: alarm: epoch 1: 9312/10000 lies above the band {told['low']}-{told['high']} of 30 curves of"
        " mnist-n30"
    )
    assert raised(found, mlp, 7, {"epoch": 1, "correct": told["high"], "total": 10000}) is None
    assert raised(found, mlp, 7, {"epoch": 1, "correct": told["low"] - 1, "total": 10000}) is not None


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_flagged_while_the_run_is_going_and_stays_flagged_in_its_record(fault: str, mnist_gz: Path) -> None:
    """A real run, left at its first alarm."""
    request = Request("mnist", nets=("mlp",), seeds=(1, 2, 3), data_dir=str(mnist_gz), fault=fault)
    heard: list[Event] = []
    with Run.open(request, lambda _: None) as run:

        def hear(event: Event) -> None:
            heard.append(event)
            if event.type == "alarm":
                run.cancel()

        with pytest.raises(Cancelled):
            run.execute(run.trials[0].id, hear)
        assert heard[-1].type == "alarm"
        assert heard[-1].data["epoch"] <= 2
        found = records.read(run.record_path)
    assert found.manifest["alarms"] == [heard[-1].data]
    assert found.manifest["alarm"] == {
        "rate": RATE,
        "watched": {found.manifest["recipes"][0]["hash"]: {"reference": "mnist-n30", "curves": 30}},
    }


@pytest.fixture
def watched(idx_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Request]:
    """watched(high): a request whose one recipe's band ends there, at all of its three epochs."""

    def make(high: float) -> Request:
        def band(recipes: list[Recipe], *_: Any) -> dict[str, alarm.Band]:
            return {recipes[0].hash: alarm.Band("made-n9", 9, (0.0,) * 3, (high,) * 3)}

        monkeypatch.setattr(alarm, "bands", band)
        return Request("mnist", nets=("linear",), seeds=(1,), epochs=3, data_dir=str(idx_folder))

    return make


def test_alarms_are_told_counted_and_reported_and_are_no_verdict(watched: Callable[[float], Request]) -> None:
    said: list[str] = []
    outcome = drive(watched(1.0), said.append)
    assert (outcome.word, outcome.alarms) == ("no-reference", 3)
    assert sum("linear-sgd-s1: alarm: epoch" in line for line in said) == 3
    report = (outcome.record_path / records.REPORT).read_text()
    assert "3 early alarms. A healthy run has one with a probability of 10 % at most; it is no part" in report
    assert report.count("- linear-sgd-s1: alarm: epoch") == 3


def test_a_quiet_run_reports_that_it_was_watched(watched: Callable[[float], Request]) -> None:
    outcome = drive(watched(1e9), lambda _: None)
    assert outcome.alarms == 0
    assert "No early alarms. A healthy run" in (outcome.record_path / records.REPORT).read_text()


def test_a_run_without_curves_says_before_and_after_that_it_is_not_watched(idx_folder: Path) -> None:
    said: list[str] = []
    request = Request("mnist", nets=("linear",), seeds=(1,), epochs=1, data_dir=str(idx_folder))
    outcome = drive(request, said.append)
    assert "early alarm linear-sgd: no reference has 5 epoch curves of it: its epochs are not watched" in said
    report = (outcome.record_path / records.REPORT).read_text()
    assert "Not watched, for want of a reference with epoch curves: linear-sgd." in report
