"""Each test of `ladder.significance` against published numbers, another implementation, or counting by hand."""

import itertools
import math
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact, nhypergeom, ttest_ind
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import ttost_ind

from ladder.errors import LadderError
from ladder.significance import (
    ROUNDING_SD,
    Finals,
    at_chance,
    count_p,
    depth_p,
    depths,
    difference,
    divergence_p,
    equivalence_p,
    holm,
    mean_p,
    more_seeds,
    outlying,
    seeds_without_divergence,
    wilson,
)

SCORES = st.lists(st.integers(9000, 9900), min_size=2, max_size=12).filter(lambda scores: len(set(scores)) > 1)


def finals(*correct: int, diverged: int = 0) -> Finals:
    return Finals(correct, 10_000, diverged)


# Newcombe, Statistics in Medicine 17 (1998), table I, method 3 (score, no continuity correction).
@pytest.mark.parametrize(
    ("correct", "total", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_newcombes_published_intervals(correct: int, total: int, low: float, high: float):
    assert wilson(correct, total) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(500, 10_000), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_agrees_with_statsmodels(correct: int, total: int, confidence: float):
    assert wilson(correct, total, confidence) == pytest.approx(
        proportion_confint(correct, total, 1 - confidence, "wilson"), abs=1e-12
    )


def test_chance_is_what_the_commonest_class_scores():
    assert at_chance(1135, 10_000, 0.1135)
    assert at_chance(980, 10_000, 0.1135)
    assert at_chance(1234, 10_000, 0.1135)
    assert not at_chance(1235, 10_000, 0.1135)
    assert float(binom.sf(1234, 10_000, 0.1135)) <= 0.001 < float(binom.sf(1233, 10_000, 0.1135))


@given(SCORES, SCORES, st.integers(1, 200))
def test_equivalence_agrees_with_statsmodels_pooled_tost(run: list[int], reference: list[int], margin: int):
    diff = difference(finals(*run), finals(*reference))
    p, lower, upper = ttost_ind(run, reference, -margin, margin, usevar="pooled")
    assert equivalence_p(diff, margin) == pytest.approx(p, abs=1e-12)
    assert diff.above(-margin) == pytest.approx(lower[1], abs=1e-12)
    assert diff.below(margin) == pytest.approx(upper[1], abs=1e-12)


@given(SCORES, st.integers(9000, 9900))
def test_one_final_is_judged_with_the_references_own_spread(reference: list[int], final: int):
    diff = difference(finals(final), finals(*reference))
    n, sd = len(reference), float(np.std(reference, ddof=1))
    assert diff.freedom == n - 1
    assert diff.error == pytest.approx(max(sd, ROUNDING_SD) * math.sqrt(1 + 1 / n))


@given(SCORES, SCORES, st.integers(0, 200), st.sampled_from([0.01, 0.05]))
def test_the_interval_is_inside_the_margin_exactly_when_equivalence_is_shown(
    run: list[int], reference: list[int], margin: int, level: float
):
    diff = difference(finals(*run), finals(*reference))
    low, high = diff.interval(level)
    shown = equivalence_p(diff, margin) <= level
    assert shown == (-margin <= low and high <= margin) or min(abs(low + margin), abs(high - margin)) < 1e-6


def test_the_mean_is_students_test_when_nothing_is_deep():
    run, reference = (9770, 9760, 9775), (9780, 9790, 9771, 9769, 9775)
    _, expected = ttest_ind([c + 3 for c in run], reference, alternative="less")
    assert mean_p(finals(*run), finals(*reference), 3) == pytest.approx(expected)


def test_one_abyss_does_not_hide_a_shift_of_the_others():
    reference = finals(*range(9770, 9790, 2))
    low = finals(9735, 9737, 9733, 9736, 9734)
    lower = finals(9735, 9737, 9733, 9736, 1500)
    assert mean_p(low, reference, 25) < 0.001
    assert mean_p(lower, reference, 25) < 0.001
    assert difference(lower, reference).below(-25) > 0.05


def test_a_final_is_outlying_below_every_reference_final_and_below_the_margin():
    wide, narrow = finals(9700, 9780, 9790), finals(9778, 9780, 9781)
    assert outlying(finals(9699, 9700, 9750), wide, 25) == 1
    assert outlying(finals(9754, 9755, 9777), narrow, 25) == 1


@pytest.mark.parametrize(("n", "m"), [(3, 2), (5, 3), (6, 4)])
def test_count_by_enumeration(n: int, m: int):
    """Every order of n + m finals is equally likely: count those with at least k of the run's lowest."""
    placements = list(itertools.combinations(range(n + m), m))  # ranks of the run's finals
    for k in range(m + 1):
        lowest = sum(set(range(k)) <= set(ranks) for ranks in placements)
        assert count_p(k, n, m) == pytest.approx(lowest / len(placements))


@given(st.integers(1, 40), st.integers(1, 20), st.data())
def test_count_is_the_negative_hypergeometric_tail(n: int, m: int, data: st.DataObject):
    """The run's finals drawn before the first reference final: scipy's nhypergeom with one failure."""
    k = data.draw(st.integers(0, m))
    assert count_p(k, n, m) == pytest.approx(float(nhypergeom.sf(k - 1, n + m, m, 1)), rel=1e-6, abs=1e-12)


def test_depth_in_reaches_below_the_median():
    reference = finals(9750, 9770, 9780, 9790)  # median 9775, range 40
    assert depths(finals(9775, 9655, 9715), reference, 20) == [2.0, 1.0, 0.0]


def test_depth_of_one_final_is_its_exact_rank_probability_over_its_depth_squared():
    assert depth_p([0.99], 30) == 1
    assert depth_p([1.0], 30) == pytest.approx(1 / 31)
    assert depth_p([10.0], 30) == pytest.approx(1 / 3100)


def test_depth_of_a_pair_outweighs_that_of_one():
    alone = 11 / 10 * 2 / 31 / 20**2
    pair = 11 * 1 / math.comb(32, 2) / 20**4
    assert depth_p([20.0, 0.1], 30) == pytest.approx(alone)
    assert depth_p([20.0, 20.0], 30) == pytest.approx(pair)


@pytest.mark.parametrize("m", [1, 3, 10])
def test_depth_holds_its_level_at_the_heaviest_tail_it_assumes(m: int):
    """Half of the scores at the median, the others short of it with survival 1/x²; 30 against m."""
    rng = np.random.default_rng(0)
    shortfall = rng.random((4000, 30 + m)) ** -0.5 * (rng.random((4000, 30 + m)) < 0.5)
    p: list[float] = []
    for row in shortfall:
        reference, run = row[:30], row[30:]
        unit = reference.max() - reference.min()
        p.append(depth_p(sorted(((run - median(reference)) / unit).tolist(), reverse=True), 30))
    for level in (0.01, 0.05):
        assert np.mean(np.array(p) <= level) <= level + 3 * math.sqrt(level / 4000)


@given(st.integers(1, 30), st.integers(1, 30), st.data())
def test_divergences_agree_with_fishers_exact_test(n: int, m: int, data: st.DataObject):
    theirs, ours = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    table = [[ours, m - ours], [theirs, n - theirs]]
    _, expected = fisher_exact(table, alternative="greater")
    assert divergence_p(ours, ours + theirs, n, m) == pytest.approx(expected, rel=1e-9)


def test_divergences_of_the_lady_tasting_tea():
    """Fisher (1935): three or more of four right by chance, 17/70."""
    assert divergence_p(3, 4, 4, 4) == pytest.approx(17 / 70)


def test_holms_worked_example():
    """The worked example of Wikipedia's "Holm-Bonferroni method": at 5 %, only the first and the last are rejected."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@settings(max_examples=10)  # statsmodels takes 50 ms
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_agrees_with_statsmodels(p: list[float]):
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_further_seeds_are_the_fewest_that_settle():
    diff = difference(finals(9740, 9780), finals(*range(9700, 9860, 10)))
    more = more_seeds(diff, 50, 0.01 / 3, 0.05)
    assert more is not None
    assert more > 1
    for extra, settles in ((more - 1, False), (more, True)):
        planned = type(diff)(diff.estimate, diff.sd, diff.n, diff.m + extra)
        assert (equivalence_p(planned, 50) <= 0.05) is settles


def test_no_number_of_seeds_settles_a_difference_at_the_margin():
    diff = difference(finals(9730, 9731), finals(*range(9770, 9790, 2)))
    assert more_seeds(diff, 49, 0.01, 0.05) is None


def test_seeds_without_a_divergence_that_clear_an_excess():
    run, reference = finals(9870, diverged=2), finals(*range(9860, 9880), diverged=1)
    further = seeds_without_divergence(run, reference, 0.05)
    assert further is not None
    assert divergence_p(2, 3, 21, 3 + further - 1) <= 0.05 < divergence_p(2, 3, 21, 3 + further)


def test_finals_must_be_counts():
    with pytest.raises(LadderError, match="0 to 10000"):
        finals(10_001)
    with pytest.raises(LadderError, match="divergences >= 0"):
        finals(9_000, diverged=-1)
