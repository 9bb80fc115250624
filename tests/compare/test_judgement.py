"""What is said of changes whose noise is known because it was put in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from loadgen.compare.estimate import paired, unpaired
from loadgen.compare.family import independent, step_down
from loadgen.compare.judgement import Judged, Plan, Traits, differences_of, judge_once, judge_pairs
from loadgen.compare.verdict import Verdict, overall, verdict_of
from loadgen.errors import ExitCode

NAN = float("nan")


def traits(
    count: int = 1, *, margin: float = 0.0, better: str = "lower", deciding: int | None = None
) -> Traits:
    mask = np.arange(count) < (count if deciding is None else deciding)
    return Traits((better,) * count, np.full(count, margin), mask, np.zeros(count))


def column(values: Sequence[float]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def judged(values: Sequence[float], plan: Plan | None = None, **settings: float) -> Judged:
    return judge_pairs(column(values), traits(**settings), plan or Plan())[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "margin", "better", "verdict"),
    [
        (0.02, 0.08, 0.0, "lower", "worse"),
        (-0.08, -0.02, 0.0, "lower", "better"),
        (0.02, 0.08, 0.0, "higher", "better"),
        (-0.08, -0.02, 0.0, "higher", "worse"),
        (0.02, 0.04, 0.05, "lower", "same"),  # a change, but none that matters
        (0.02, 0.08, 0.05, "lower", "worse"),
        (-0.02, 0.08, 0.05, "lower", "inconclusive"),
        (0.0, 0.08, 0.05, "lower", "inconclusive"),  # touches no change
        (-0.08, -0.02, 0.0, "neither", "worse"),
        (NAN, NAN, 0.05, "lower", "inconclusive"),
    ],
)
def test_a_verdict_is_where_the_interval_lies(
    low: float, high: float, margin: float, better: str, verdict: str
) -> None:
    assert verdict_of(low, high, margin, better) == verdict


@pytest.mark.parametrize(
    ("verdicts", "whole", "code"),
    [
        (["same", "same"], "same", ExitCode.OK),
        (["same", "inconclusive"], "inconclusive", ExitCode.INCONCLUSIVE),
        (["better", "inconclusive"], "better", ExitCode.OK),
        (["better", "worse", "same"], "worse", ExitCode.LIMIT_BROKEN),
        ([], "inconclusive", ExitCode.INCONCLUSIVE),
    ],
)
def test_the_whole_is_worse_if_any_is(verdicts: list[str], whole: str, code: ExitCode) -> None:
    found = overall(Verdict(verdict) for verdict in verdicts)
    assert (found, found.exit_code) == (whole, code)


def test_the_interval_of_one_cell_is_that_of_the_t_test() -> None:
    one = judged([0.01, 0.03, 0.02, 0.04, 0.05])
    # mean 0.03, standard error 0.0070711, t(4) at 5 % 2.77645
    assert (one.change, one.low, one.high) == pytest.approx((0.03, 0.010367, 0.049633), abs=1e-6)
    assert one.verdict is Verdict.WORSE


def test_one_pair_without_known_noise_is_never_worse() -> None:
    one = judged([0.7])
    assert one.verdict is Verdict.INCONCLUSIVE
    assert np.isnan(one.low)
    assert one.change == 0.7


def test_noise_on_record_lets_one_pair_decide() -> None:
    noise = column([0.01, -0.02, 0.015, -0.005, 0.01])
    (clear,) = judge_pairs(column([0.2]), traits(), Plan(), noise)
    (unclear,) = judge_pairs(column([0.02]), traits(), Plan(), noise)
    assert (clear.verdict, unclear.verdict) == (Verdict.WORSE, Verdict.INCONCLUSIVE)


def test_noise_on_record_widens_what_few_pairs_make_too_narrow() -> None:
    pairs = [0.030, 0.031, 0.0305]
    noisy = column([0.08, -0.1, 0.09, -0.07, 0.11, -0.08])
    assert judged(pairs).verdict is Verdict.WORSE
    assert judge_pairs(column(pairs), traits(), Plan(), noisy)[0].verdict is Verdict.INCONCLUSIVE


def test_looking_asks_for_more_than_one_look_does() -> None:
    rng = np.random.default_rng(3)
    values = [float(value) for value in 0.03 + 0.06 * rng.standard_normal(12)]
    once, looked = judged(values), judged(values, Plan(max_looks=20))
    assert looked.high - looked.low > once.high - once.low


def test_what_was_decided_early_stays_decided() -> None:
    values = [0.20, 0.21, 0.19, 0.20, 0.22, 0.20, 0.21, -0.5, 0.4, -0.3]
    assert judged(values[:7], Plan(max_looks=20)).verdict is Verdict.WORSE
    one = judged(values, Plan(max_looks=20))
    assert one.verdict is Verdict.WORSE
    assert one.decided_after is not None
    assert one.decided_after <= 7


def test_a_missing_side_is_left_out_and_counted() -> None:
    one = judged([0.01, NAN, 0.02, 0.03])
    assert one.count == 3
    assert one.change == pytest.approx(0.02)


def test_nothing_at_all_is_inconclusive() -> None:
    one = judged([NAN, NAN])
    assert (one.count, one.verdict, one.more) == (0, Verdict.INCONCLUSIVE, None)
    assert np.isnan(one.change)


def test_equal_values_in_all_pairs_are_the_same() -> None:
    assert judged([0.0] * 4, margin=0.01).verdict is Verdict.SAME


def test_the_floor_keeps_counts_of_nothing_from_being_certain() -> None:
    floor = Traits(("lower",), np.array([0.01]), np.ones(1, dtype=bool), np.array([0.02]))
    assert judge_pairs(column([0.0] * 4), floor, Plan())[0].verdict is Verdict.INCONCLUSIVE


def test_more_pairs_are_foretold_from_what_was_seen() -> None:
    few = judged([0.08, -0.02] * 3)
    assert few.more is not None
    # 2.12 (t at 16) * 0.0548 / sqrt(17) is the first below 0.03.
    assert few.more == 11
    assert judged([0.08, -0.02] * 6).verdict is Verdict.INCONCLUSIVE
    assert judged([0.08, -0.02] * ((6 + few.more + 3) // 2)).verdict is Verdict.WORSE


def test_welch_where_runs_have_no_partner() -> None:
    base, candidate = column([1.0, 1.2, 1.1, 0.9]), column([1.5, 1.4, 1.6])
    (one,) = judge_once(unpaired(base, candidate, np.zeros(1)), traits(), Plan())
    # scipy.stats.ttest_ind(candidate, base, equal_var=False).confidence_interval()
    assert (one.change, one.low, one.high) == pytest.approx((0.45, 0.22677, 0.67323), abs=1e-4)


def test_a_lone_run_takes_the_spread_of_the_other_side() -> None:
    base, lone = column([1.0, 1.1, 0.9, 1.0]), column([2.0])
    assert judge_once(unpaired(base, lone, np.zeros(1)), traits(), Plan())[0].verdict is Verdict.WORSE
    # 1.0 above is well outside; 0.1 is not, for one run.
    near = column([1.1])
    assert judge_once(unpaired(base, near, np.zeros(1)), traits(), Plan())[0].verdict is Verdict.INCONCLUSIVE


def test_alike_figures_count_as_few_and_unlike_ones_as_many() -> None:
    everything = np.ones(4, dtype=bool)
    assert independent(np.ones((4, 4)), everything) == pytest.approx(1.0)
    assert independent(np.eye(4), everything) == pytest.approx(4.0)
    assert independent(None, everything) == 4.0


def test_few_pairs_do_not_make_figures_look_alike() -> None:
    values = np.random.default_rng(0).standard_normal((3, 5))
    assert paired(values, np.zeros(5)).correlation is None


def test_step_down_gives_the_share_of_what_differs_to_the_rest() -> None:
    deciding = np.ones(3, dtype=bool)
    # 0.8 of 5 % over 3 figures is 1.33 %: the first passes it, then 2 % for two, then 4 % for one.
    p = np.array([0.010, 0.019, 0.045])
    rejected, _ = step_down(p, deciding, np.zeros(3, dtype=bool), None, 0.05, lambda alpha: alpha)
    assert rejected.tolist() == [
        True,
        True,
        True,
    ]  # the last at 5 %: no other group is left to keep its share for
    rejected, _ = step_down(
        p, ~deciding | (np.arange(3) < 2), np.zeros(3, dtype=bool), None, 0.05, lambda a: a
    )
    assert rejected.tolist() == [True, True, True]


def test_a_figure_that_does_not_decide_has_the_smaller_share() -> None:
    deciding = np.array([True, False])
    p = np.array([0.5, 0.02])
    rejected, alphas = step_down(p, deciding, np.zeros(2, dtype=bool), None, 0.05, lambda alpha: alpha)
    assert rejected.tolist() == [False, False]
    assert alphas == pytest.approx([0.04, 0.01])


def test_false_alarms_hold_over_the_family_and_the_looks() -> None:
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(300):
        common = rng.standard_normal((12, 1))
        values = 0.8 * common + 0.6 * rng.standard_normal((12, 6))
        cells = judge_pairs(values, traits(6, deciding=3), Plan(max_looks=12))
        found += any(cell.verdict is not Verdict.INCONCLUSIVE for cell in cells)
    assert found <= 300 * 0.05 + 2.6 * np.sqrt(300 * 0.05 * 0.95)


def test_ratios_are_logarithms_and_shares_are_differences() -> None:
    base, candidate = np.array([[2.0, 0.10]]), np.array([[2.2, 0.15]])
    assert differences_of(base, candidate, [True, False]) == pytest.approx(np.array([[np.log(1.1), 0.05]]))


def test_a_ratio_to_nothing_is_missing() -> None:
    assert np.isnan(differences_of(np.array([[0.0]]), np.array([[1.0]]), [True])).all()


def test_a_true_change_is_found_in_spite_of_one_odd_base_run() -> None:
    # Field case F90: one of five base runs is 10 % off, the p99 of the candidate is 20 % up.
    noise = [0.01, -0.012, 0.0, 0.008, -0.006]
    values = [np.log(1.2) + one for one in noise]
    values[2] -= np.log(1.1)
    assert judged(values).verdict is Verdict.WORSE


def test_the_same_build_with_three_percent_of_noise_is_not_worse() -> None:
    # Field case F90: A against A, up to 3 % apart, one run 10 % off.
    values = [0.03, -0.02, 0.01, 0.025, -0.03]
    values[1] += np.log(1.1)
    assert judged(values).verdict not in (Verdict.WORSE, Verdict.BETTER)
