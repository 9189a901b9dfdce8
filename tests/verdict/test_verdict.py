"""What the verdict says of a run: each word, what it must never say, and faults that it must catch."""

import json
from collections.abc import Callable
from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ladder.errors import LadderError
from ladder.verdict import Cell, Finals, Judgement, Word, exit_code, judge, run_word

TOTAL = 10_000
LINEAR = (9210,) * 30
MLP = (
    *(9749, 9755, 9763, 9763, 9764, 9765, 9765, 9769, 9770, 9772, 9775, 9776, 9776, 9776, 9777),
    *(9778, 9778, 9779, 9779, 9780, 9781, 9783, 9784, 9785, 9786, 9786, 9787, 9790, 9792, 9793),
)
CNN = (
    *(9739, 9848, 9859, 9860, 9867, 9867, 9871, 9872, 9872, 9873, 9874, 9875, 9876, 9878, 9878),
    *(9879, 9881, 9881, 9881, 9884, 9885, 9885, 9885, 9885, 9887, 9887, 9888, 9890, 9891, 9894),
)
HEALTHY = (9769, 9772, 9776, 9781, 9786)


def cell(
    *correct: int,
    reference: Finals | tuple[int, ...] | None = MLP,
    margin: float = 0.25,
    diverged: int = 0,
    lost: dict[Word, int] | None = None,
    stand_in: str = "",
) -> Cell:
    """A run of the mlp against its published reference, unless told otherwise."""
    theirs = Finals(reference, TOTAL) if isinstance(reference, tuple) else reference
    return Cell("mlp", "sgd", Finals(correct, TOTAL, diverged), theirs, margin, "published", lost or {}, stand_in)


def judged[**P](make: Callable[P, Cell]) -> Callable[P, Judgement]:
    return lambda *args, **kwargs: judge([make(*args, **kwargs)])[0]


one = judged(cell)


# Words


def test_a_healthy_run_passes_and_says_why():
    judgement = one(*HEALTHY)
    assert judgement.word is Word.PASS
    assert (
        judgement.reason == "mean 97.77 % against the reference's 97.76 %, shown to be within the margin of 0.25 points"
    )
    assert (judgement.m, judgement.n, judgement.range) == (5, 30, (9749, 9777.5, 9793))
    assert judgement.interval is not None
    assert -0.25 < judgement.interval[0] < judgement.interval[1] < 0.25


def test_the_published_mean_and_spread_are_printed_in_per_cent():
    judgement = one(*HEALTHY, reference=CNN, margin=0.5)
    assert judgement.reference_mean == pytest.approx(98.731, abs=5e-4)
    assert judgement.reference_sd == pytest.approx(0.273, abs=5e-4)


def test_finals_outside_the_range_are_counted_in_images():
    assert one(9700, 9776, 9800).outside == (-49, 7)


def test_the_tests_of_a_cell_carry_raw_and_adjusted_p():
    tests = {test.test: test for test in one(9700, 9705, 9710).tests}
    assert tests.keys() == {"mean", "count", "depth"}
    assert all(test.holm is not None and test.raw <= test.holm for test in tests.values())


def test_a_test_that_could_never_reject_is_not_counted():
    tests = {test.test: test for test in one(9776).tests}
    assert tests["count"].holm is None  # one of one below all of 30: 1/31
    assert tests["depth"].holm is not None


def test_a_judgement_is_plain_json():
    text = json.dumps(asdict(one(*HEALTHY, stand_in="other layout")))
    assert json.loads(text)["word"] == "pass"


# Faults that must be caught


@pytest.mark.parametrize(
    ("fault", "finals", "test"),
    [
        ("every final two margins low", tuple(c - 50 for c in HEALTHY), "mean"),
        ("four of five just below the range", (9748, 9748, 9748, 9747, 9776), "count"),
        ("one trial at 50 %", (5000, 9772, 9776, 9781, 9786), "depth"),
        ("two trials at 90 %", (9000, 9001, 9776, 9781, 9786), "depth"),
        ("one seed, at 90 %", (9000,), "depth"),
    ],
)
def test_a_fault_fails_by_the_test_made_for_it(fault: str, finals: tuple[int, ...], test: str):
    judgement = one(*finals)
    assert judgement.word is Word.FAIL, fault
    adjusted = {t.test: t.holm for t in judgement.tests}[test]
    assert adjusted is not None
    assert adjusted <= 0.01


def test_a_fault_in_one_net_fails_a_run_of_three():
    healthy = [cell(9210, 9210, 9210, reference=LINEAR, margin=0), cell(9870, 9876, 9881, reference=CNN, margin=0.5)]
    judgements = judge([*healthy, cell(9720, 9722, 9726)])
    assert [judgement.word for judgement in judgements] == [Word.PASS, Word.PASS, Word.FAIL]
    assert run_word(judgements) is Word.FAIL


def test_holm_spans_the_run():
    weak = cell(9735, 9738, 9741)
    assert judge([weak])[0].word is Word.FAIL
    assert judge([weak] + [cell(9775, 9776, 9778)] * 30)[0].word is Word.INCONCLUSIVE


def test_a_single_honest_outlier_is_not_a_failure():
    """The cnn's published 9739 against the other 29, and against 25 of them, alone and among healthy finals."""
    for others in (CNN[1:], CNN[1:26], CNN[-25:]):
        for run in ((9739,), (9739, 9881), (9739, 9881, 9874), (9739, 9881, 9874, 9885, 9890)):
            assert one(*run, reference=others, margin=0.5).word is not Word.FAIL


def test_an_honest_outlier_alone_is_inconclusive_and_passes_among_four_healthy_finals():
    assert one(9739, reference=CNN, margin=0.5).word is Word.INCONCLUSIVE
    assert one(9739, 9881, 9874, 9885, 9890, reference=CNN, margin=0.5).word is Word.PASS


# Equivalence


def test_better_by_more_than_the_margin_passes_with_a_note():
    judgement = one(9830, 9834, 9838)
    assert judgement.word is Word.PASS
    assert "above" in judgement.notes
    assert "above" not in one(*HEALTHY).notes


def test_inconclusive_says_how_many_seeds_would_settle_it():
    judgement = one(9785)
    assert judgement.word is Word.INCONCLUSIVE
    assert judgement.more_seeds == 1
    assert "1 more seed would" in judgement.reason


def test_inconclusive_says_so_when_no_number_of_seeds_would_settle_it():
    judgement = one(9749, 9751, 9752, 9750)
    assert judgement.word is Word.INCONCLUSIVE
    assert judgement.more_seeds is None
    assert "too near the margin for any number of seeds" in judgement.reason


def test_a_thin_reference_is_judged_and_noted():
    judgement = one(9776, 9777, 9778, reference=(9775, 9778, 9779))
    assert judgement.word is Word.PASS
    assert "thin reference: n=3" in judgement.notes
    assert one(9760, reference=(9775, 9779)).word is Word.INCONCLUSIVE


def test_one_seed_says_whose_spread_it_takes():
    assert "m=1: the spread is taken from the reference" in one(9776).notes


def test_a_stand_in_is_declared_in_the_note_and_in_the_sentence():
    judgement = one(*HEALTHY, stand_in="32-pixel crops")
    assert "stand-in: 32-pixel crops" in judgement.notes
    assert "the stand-in's" in judgement.reason


# Zero variance


@pytest.mark.parametrize("run", [(9210,), (9210,) * 5])
def test_exact_finals_pass(run: tuple[int, ...]):
    assert one(*run, reference=LINEAR, margin=0).word is Word.PASS


@pytest.mark.parametrize("run", [(9209,), (9211,), (9210, 9210, 9211)])
def test_any_other_count_fails_an_exact_reference(run: tuple[int, ...]):
    judgement = one(*run, reference=LINEAR, margin=0)
    assert judgement.word is Word.FAIL
    assert "differ from 9210 of 10000" in judgement.reason


def test_zero_variance_in_the_reference_only():
    assert one(9209, 9210, 9212, reference=LINEAR, margin=0.25).word is Word.PASS
    assert one(9150, 9151, reference=LINEAR, margin=0.25).word is Word.FAIL


def test_zero_variance_in_the_run_only():
    assert one(9777, 9777, 9777).word is Word.PASS
    assert one(9700, 9700, 9700).word is Word.FAIL


def test_zero_variance_in_both():
    assert one(9212, 9212, reference=LINEAR, margin=0.25).word is Word.PASS
    assert one(9180, 9180, reference=LINEAR, margin=0.25).word is Word.FAIL


def test_a_margin_of_zero_never_passes_a_reference_that_varies():
    judgement = one(9776, 9777, 9778, margin=0)
    assert (judgement.word, judgement.more_seeds) == (Word.INCONCLUSIVE, None)


# Divergences and lost trials


def test_a_divergence_where_the_reference_has_none_never_passes():
    assert one(*HEALTHY, diverged=1).word is Word.DIVERGED
    assert one(diverged=1).word is Word.DIVERGED
    assert one(9210, reference=LINEAR, margin=0, diverged=1).word is Word.DIVERGED


def test_an_excess_of_divergences_fails():
    judgement = one(9776, 9778, diverged=3)
    assert judgement.word is Word.FAIL
    assert judgement.reason == "3 of 5 trials diverged (0 of 30 in the reference)"


def test_where_the_reference_diverges_the_rates_are_compared():
    unstable = Finals(MLP[:20], TOTAL, 10)
    assert one(*HEALTHY, diverged=1, reference=unstable).word is Word.PASS
    rare = Finals(MLP, TOTAL, 1)
    judgement = one(*HEALTHY, diverged=3, reference=rare)
    assert judgement.word is Word.INCONCLUSIVE
    assert judgement.more_seeds is not None
    assert one(9776, diverged=5, reference=rare).word is Word.FAIL


def test_a_reference_that_only_diverges_is_no_reference():
    assert one(9776, reference=Finals((), TOTAL, 5)).word is Word.NO_REFERENCE
    assert one(diverged=5, reference=Finals((), TOTAL, 5)).word is Word.NO_REFERENCE


@pytest.mark.parametrize("word", [Word.CRASHED, Word.TIMEOUT, Word.UNSUPPORTED, Word.NOT_RUN])
def test_a_run_with_lost_trials_never_passes(word: Word):
    judgement = one(*HEALTHY, lost={word: 1})
    assert judgement.word is word
    assert f"lost trials: 1 {word}" in judgement.notes
    assert one(lost={word: 5}).word is word


def test_lost_trials_do_not_hide_a_failure():
    assert one(9700, 9702, 9706, lost={Word.CRASHED: 2}).word is Word.FAIL


def test_the_worst_loss_is_the_word():
    assert one(9776, lost={Word.NOT_RUN: 3, Word.CRASHED: 1}).word is Word.CRASHED


def test_nothing_run_is_not_run():
    assert one().word is Word.NOT_RUN
    assert one(reference=None).word is Word.NOT_RUN


# No reference


def test_without_a_reference_the_word_is_no_reference():
    judgement = one(9776, 9777, reference=None)
    assert (judgement.word, judgement.n, judgement.range, judgement.tests) == (Word.NO_REFERENCE, 0, None, ())


def test_a_single_published_final_is_context():
    judgement = one(9776, 9777, reference=(9783,))
    assert judgement.word is Word.NO_REFERENCE
    assert judgement.reference_mean == pytest.approx(97.83)
    assert "n=1 context: the published final is 9783 of 10000" in judgement.notes


def test_a_divergence_without_a_reference_is_still_a_divergence():
    assert one(9776, diverged=1, reference=None).word is Word.DIVERGED


# Wrong input


def test_another_number_of_test_images_cannot_be_compared():
    with pytest.raises(LadderError, match="scores 9984 images, the reference 10000"):
        Cell("mlp", "sgd", Finals((9776,), 9984), Finals(MLP, TOTAL), 0.25)


def test_a_negative_margin_and_an_unknown_loss_are_refused():
    with pytest.raises(LadderError, match="got -1"):
        cell(9776, margin=-1)
    with pytest.raises(LadderError, match="not pass"):
        cell(9776, lost={Word.PASS: 1})


# The run's word


def test_the_runs_word_is_its_worst():
    judgements = [one(*HEALTHY), one(*HEALTHY, lost={Word.TIMEOUT: 1}), one(9785)]
    assert run_word(judgements) is Word.TIMEOUT
    assert run_word(judgements[:1]) is Word.PASS
    assert run_word([]) is Word.NOT_RUN


def test_exit_codes():
    by_code = {code: {word for word in Word if exit_code(word) == code} for code in (0, 1, 3)}
    assert by_code[0] == {Word.PASS}
    assert by_code[1] == {Word.FAIL, Word.DIVERGED, Word.CRASHED, Word.TIMEOUT}
    assert by_code[3] == {Word.INCONCLUSIVE, Word.NO_REFERENCE, Word.UNSUPPORTED, Word.NOT_RUN}


# Properties

RUNS = st.lists(st.integers(9600, 9850), min_size=1, max_size=8)
REFERENCES = st.lists(st.integers(9700, 9800), min_size=2, max_size=12)


@given(RUNS, REFERENCES, st.integers(0, 7), st.integers(1, 9000))
def test_lowering_a_final_never_turns_fail_into_pass(run: list[int], reference: list[int], which: int, images: int):
    lowered = list(run)
    lowered[which % len(run)] = max(0, lowered[which % len(run)] - images)
    before = one(*run, reference=tuple(reference)).word
    after = one(*lowered, reference=tuple(reference)).word
    assert not (before is Word.FAIL and after is Word.PASS)


@given(RUNS, REFERENCES, st.randoms(use_true_random=False))
def test_the_order_of_seeds_does_not_matter(run: list[int], reference: list[int], random: Random):
    shuffled, other = list(run), list(reference)
    random.shuffle(shuffled)
    random.shuffle(other)
    a, b = one(*run, reference=tuple(reference)), one(*shuffled, reference=tuple(other))
    assert (a.word, a.range, a.more_seeds) == (b.word, b.range, b.more_seeds)
    assert [test.raw for test in a.tests] == pytest.approx([test.raw for test in b.tests])


@given(RUNS, REFERENCES.filter(lambda reference: len(set(reference)) > 1), st.sampled_from([10, 100]))
def test_a_larger_test_set_with_the_same_scores_gives_the_same_p(run: list[int], reference: list[int], factor: int):
    def judged_at(f: int) -> Judgement:
        ours, theirs = (Finals(tuple(c * f for c in scores), TOTAL * f) for scores in (run, reference))
        return judge([Cell("net", "arm", ours, theirs, 0.25)])[0]

    small, large = judged_at(1), judged_at(factor)
    for a, b in zip(small.tests, large.tests, strict=True):
        assert a.test == "mean" or a.raw == pytest.approx(b.raw)
    assert small.word == large.word


@given(RUNS, REFERENCES, st.integers(0, 5))
def test_a_divergence_never_passes_a_reference_without_one(run: list[int], reference: list[int], finite: int):
    assert one(*run[:finite], reference=tuple(reference), diverged=1).word in (Word.DIVERGED, Word.FAIL)
