"""Figures of small runs, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loadgen.plan.schedule import Window
from loadgen.replay.request_record import Outcome
from loadgen.report import observations
from loadgen.report.figures import Distribution, Missing
from loadgen.report.observations import Observations
from loadgen.report.outcomes import outcome_counts, token_counts
from loadgen.report.stages import Stages, receipt_lateness, stages
from support import planted
from support.runs import failed, measured, ns, ok, records


def test_missing_values_stay_missing_and_one_token_has_no_time_per_token() -> None:
    # F12: an empty answer, one of 1 token at 100 ms, one of 5 tokens 100..180 ms.
    overall = measured(
        [
            failed(0, "empty", end_s=0.06),
            ok(1, first_s=1.1, last_s=1.1, tokens=1),
            ok(2, first_s=2.1, last_s=2.18, tokens=5),
        ]
    )["overall"]
    ttft, tpot = overall.distribution("ttft"), overall.distribution("tpot")
    assert ttft is not None
    assert tpot is not None
    assert (ttft.count, round(ttft.mean, 9), round(ttft.p50, 9)) == (2, 0.1, 0.1)
    assert (tpot.count, round(tpot.mean, 9)) == (1, 0.02)


def test_several_tokens_a_chunk_give_two_figures_of_two_names() -> None:
    # F16: chunks at 100/140/180/220 ms holding 1/4/4/4 tokens.
    row = ok(0, first_s=0.1, last_s=0.22, tokens=4) | {"output_tokens": 13}
    overall = measured([row])["overall"]
    tpot, gap = overall.distribution("tpot"), overall.distribution("chunk_gap")
    assert tpot is not None
    assert gap is not None
    assert tpot.mean == pytest.approx(0.010)
    assert gap.mean == pytest.approx(0.040)
    assert gap.count == 3
    assert overall.value("output_token_rate") == pytest.approx(1.3)


@pytest.mark.parametrize(("outcome", "seconds"), [("rejected", 0.0005), ("timeout_total", 60.0)])
def test_failures_never_enter_latency(outcome: str, seconds: float) -> None:
    # F25: fast errors and slow time-outs alike; blended means would be 0.4952 and 20.895.
    rows = [ok(0.1 * k, first_s=0.1 * k + 0.1, last_s=0.1 * k + 0.75) for k in range(66)]
    rows += [failed(7 + 0.01 * k, outcome, end_s=7 + 0.01 * k + seconds) for k in range(34)]
    overall = measured(rows)["overall"]
    latency = overall.distribution("latency")
    assert latency is not None
    assert latency.count == 66
    assert latency.mean == pytest.approx(0.750)
    assert overall.value("error_rate") == 0.34
    counts = {one.name: one for one in outcome_counts(Observations(records(rows)), 100)}
    assert (counts["ok"].count, counts[outcome].count) == (66, 34)
    duration = counts[outcome].duration
    assert isinstance(duration, Distribution)
    assert duration.mean == pytest.approx(seconds)


@pytest.mark.parametrize("outcome", ["refused", "timeout_connect"])
def test_a_failure_to_connect_is_timed_from_its_attempt(outcome: str) -> None:
    # F25: 34 refused after 0.5 ms; nothing was sent, so there is no send to count from.
    rows = [failed(0.1 * k, outcome, end_s=0.1 * k + 0.0005) | {"sent_ns": None} for k in range(34)]
    (count,) = outcome_counts(Observations(records(rows)), 34)
    assert isinstance(count.duration, Distribution)
    assert (count.duration.count, round(count.duration.mean, 9)) == (34, 0.0005)


def test_tokens_of_unfinished_answers_count_where_they_arrived() -> None:
    # F33: ten streams of a token each 0.1 s, none finished when the run ends at 10 s.
    rows = [
        failed(0, "unfinished", end_s=10.0, first_token_ns=ns(0.05), num_chunks=100, num_coalesced=0,
               chunk_gap_us=[100_000] * 99)
        for _ in range(10)
    ]  # fmt: skip
    overall = measured(rows)["overall"]
    assert overall.value("output_token_rate") == pytest.approx(100.0)
    assert overall.value("served_rate") == 0.0
    assert isinstance(overall.figures["error_rate"], Missing)


def test_a_wait_in_the_client_is_in_latency_and_not_in_service_latency() -> None:
    # F38: 8 rows 0.1 s apart, 0.5 s of service each, one slot in the client.
    rows = [
        ok(0.1 * k, sent_s=0.5 * k, first_s=0.5 * k + 0.5, last_s=0.5 * k + 0.5, tokens=1) for k in range(8)
    ]
    overall = measured(rows)["overall"]
    latency, service = overall.distribution("latency"), overall.distribution("service_latency")
    lateness = overall.distribution("lateness")
    assert latency is not None
    assert service is not None
    assert lateness is not None
    assert [latency.mean, latency.max, latency.p99] == pytest.approx([1.90, 3.30, 3.30])
    assert service.max == pytest.approx(0.50)
    assert lateness.mean == pytest.approx(1.40)
    assert overall.value("client_wait") == pytest.approx(0.737, abs=0.0005)


def test_reasoning_has_a_first_token_and_the_answer_another() -> None:
    # F14
    row = ok(0, first_s=0.1, last_s=0.6, tokens=6) | {"first_answer_token_ns": ns(0.5)}
    overall = measured([row])["overall"]
    first, answer, each = (overall.distribution(name) for name in ("ttft", "ttfat", "tpot"))
    assert first is not None
    assert answer is not None
    assert each is not None
    assert [first.p50, answer.p50, each.p50] == pytest.approx([0.1, 0.5, 0.1])


def test_the_source_of_token_counts_and_the_shortfall_are_told() -> None:
    # F23: asked 512; 37 by usage, 37 by chunks, 40 by usage with 37 events.
    asked = {"output_tokens_planned": 512}
    rows = [
        ok(0, first_s=0.1, last_s=0.5, tokens=37) | asked,
        ok(1, first_s=1.1, last_s=1.5, tokens=37) | asked | {"tokens_source": "chunks"},
        ok(2, first_s=2.1, last_s=2.5, tokens=37) | asked | {"output_tokens": 40},
    ]
    counted = token_counts(Observations(records(rows)))
    assert (counted.from_usage, counted.from_chunks) == (2, 1)
    assert (counted.short, counted.missing_tokens) == (3, 475 + 475 + 472)


def test_a_request_belongs_to_the_window_it_was_planned_in() -> None:
    windows = [
        Window("baseline", 0, ns(4)), Window("peak-1", ns(4), ns(5)), Window("recovery-1", ns(5), ns(8)),
        Window("baseline", ns(8), ns(10)),
    ]  # fmt: skip
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.2, window="baseline") for k in (0, 1, 2, 3, 8, 9)]
    rows += [ok(4 + k / 10, first_s=6.0, last_s=6.5, window="peak-1") for k in range(10)]
    rows += [failed(5.5, "rejected", end_s=5.6, window="recovery-1")]
    found = measured(rows, windows=windows)
    assert list(found) == ["overall", "baseline", "peak-1", "recovery-1"]
    assert {label: one.requests for label, one in found.items()} == {
        "overall": 17, "baseline": 6, "peak-1": 10, "recovery-1": 1,
    }  # fmt: skip
    assert found["baseline"].duration_s == 6.0
    assert found["peak-1"].value("offered_rate") == 10.0
    assert found["recovery-1"].value("error_rate") == 1.0
    peak = found["peak-1"].distribution("latency")
    assert peak is not None
    assert peak.max == pytest.approx(2.5)


def test_what_a_cut_run_never_came_to_was_not_offered() -> None:
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.2) for k in range(2)]
    rows += [failed(2 + k, "not_sent") for k in range(8)]
    overall = measured(rows, length_s=10.0, run_end_s=2.0)["overall"]
    assert overall.duration_s == 2.0
    assert overall.value("offered_rate") == 1.0


def test_nothing_measured_is_null_with_a_reason() -> None:
    overall = measured([failed(0, "refused", end_s=0.001)])["overall"]
    for name in ("latency", "ttft", "tpot", "chunk_gap", "queue_share"):
        figure = overall.figures[name]
        assert isinstance(figure, Missing)
        assert figure.reason
    assert overall.value("error_rate") == 1.0


def test_latency_ends_with_the_last_token_not_with_the_stream() -> None:
    # F18: tokens at 100, 150, 200 ms, usage at 260, [DONE] at 300.
    row = ok(0, first_s=0.1, last_s=0.2, tokens=3) | {"end_ns": ns(0.3)}
    overall = measured([row])["overall"]
    latency, each = overall.distribution("latency"), overall.distribution("tpot")
    assert latency is not None
    assert each is not None
    assert [latency.p50, each.p50] == pytest.approx([0.2, 0.05])


def test_the_last_of_running_totals_is_the_count_of_tokens() -> None:
    # F22: 222 events, the last of which tells 222 tokens; their sum would be 24,753.
    row = ok(0, first_s=0.1, last_s=2.31, tokens=222) | {"prompt_tokens": 6179}
    assert measured([row])["overall"].value("output_token_rate") == pytest.approx(22.2)


def test_what_hung_at_the_end_is_listed_with_its_age() -> None:
    # F35: 20 answers of 50 ms, and one that never came, sent at 2 s and given up at 11 s.
    rows = [ok(0.4 * k, first_s=0.4 * k + 0.02, last_s=0.4 * k + 0.05) for k in range(20)]
    rows += [failed(2.0, "unfinished", end_s=11.0)]
    counts = {one.name: one for one in outcome_counts(Observations(records(rows)), 21)}
    assert {name: one.count for name, one in counts.items()} == {"ok": 20, "unfinished": 1}
    age = counts["unfinished"].duration
    assert isinstance(age, Distribution)
    assert age.max == pytest.approx(9.0)
    assert counts["unfinished"].counts_against == "nobody"


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 79), st.integers(1, 5)), min_size=1, max_size=30))
def test_windows_part_requests_and_tokens_without_a_rest(drawn: list[tuple[int, int]]) -> None:
    labels = ("baseline", "burst-1", "recovery-1", "baseline", "burst-2", "recovery-2", "baseline", "burst-3")
    windows = [Window(label, ns(k), ns(k + 1)) for k, label in enumerate(labels)]
    rows = [
        ok(at / 10, first_s=at / 10 + 0.04, last_s=at / 10 + 0.9, tokens=tokens, window=labels[at // 10])
        for at, tokens in drawn
    ]
    found = measured(rows, windows=windows)
    overall = found.pop("overall")
    assert sum(one.requests for one in found.values()) == overall.requests == len(rows)
    for name in ("offered_rate", "output_token_rate", "served_rate"):
        whole = (overall.value(name) or 0.0) * overall.duration_s
        assert sum((one.value(name) or 0.0) * one.duration_s for one in found.values()) == pytest.approx(
            whole
        )
    assert (overall.value("offered_rate") or 0.0) * 8 == pytest.approx(len(rows))


STAGE_US = {
    "server_parsed_us": 100, "server_pre_start_us": 300, "server_pre_end_us": 400, "server_enqueued_us": 450,
    "server_exec_start_us": 60_450, "server_prefill_end_us": 80_000, "server_first_token_us": 80_450,
    "server_last_token_us": 98_000, "server_finished_us": 98_500, "server_mean_batch": 2.0,
}  # fmt: skip


class TestStages:
    def test_the_parts_add_up_to_the_latency(self) -> None:
        row = ok(0, sent_s=0.001, first_s=0.085, last_s=0.1) | STAGE_US
        found = stages(Observations(records([row])))
        assert isinstance(found, Stages)
        means = {name: part.mean for name, part in found.parts}
        assert sum(means.values()) == pytest.approx(found.latency.mean)
        assert means["inference queue"] == pytest.approx(0.060)
        assert means["network and client"] == pytest.approx(0.1 - 0.001 - 0.0985)

    @given(st.lists(st.tuples(*[st.floats(0, 0.5)] * 6), min_size=1, max_size=12))
    def test_the_parts_add_up_whatever_they_are(self, drawn: list[tuple[float, ...]]) -> None:
        rows = [
            planted.row(
                k, pre_wait_s=pre, wait_s=wait, first_s=first, step_s=step / 10, hold_s=hold, network_s=network,
                sent_s=k + network,
            )
            for k, (pre, wait, first, step, hold, network) in enumerate(drawn)
        ]  # fmt: skip
        found = stages(Observations(records(rows)))
        assert isinstance(found, Stages)
        parts = dict(found.parts)
        assert sum(part.mean for part in parts.values()) == pytest.approx(found.latency.mean)
        assert parts["inference queue"].mean == pytest.approx(
            sum(one[1] for one in drawn) / len(drawn), abs=2e-6
        )

    def test_the_queue_share_is_waiting_over_the_servers_whole_time(self) -> None:
        overall = measured([ok(0, first_s=0.085, last_s=0.1) | STAGE_US])["overall"]
        assert overall.value("inference_queue_share") == pytest.approx(60.0 / 98.5)
        assert overall.value("preprocess_queue_share") == pytest.approx(0.2 / 98.5)
        assert overall.value("queue_share") == pytest.approx(60.2 / 98.5)
        assert overall.value("mean_batch") == 2.0

    def test_what_was_outside_of_the_server_is_the_rest_of_the_service_latency(self) -> None:
        overall = measured([ok(0, sent_s=0.1, first_s=0.285, last_s=0.297) | STAGE_US])["overall"]
        assert overall.value("outside_share") == pytest.approx(98.5 / 197.0)

    def test_lateness_as_the_server_saw_it(self) -> None:
        start = 1_796_083_200_000_000_000
        row = ok(0.5, first_s=0.6, last_s=0.7) | {"server_recv_unix_ns": start + ns(0.5003)}
        found = receipt_lateness(Observations(records([row])), start)
        assert isinstance(found, Distribution)
        assert found.p50 == pytest.approx(0.0003, abs=1e-9)


outcomes = st.sampled_from([outcome.value for outcome in Outcome])


@given(st.lists(st.tuples(st.floats(0, 9), outcomes, st.floats(0, 5)), min_size=1, max_size=40))
def test_every_planned_request_is_counted_once(drawn: list[tuple[float, str, float]]) -> None:
    # planned = sent + not_sent + unrecorded, and sent = the sum of all other outcomes.
    rows = [
        ok(at, first_s=at + 0.01, last_s=at + 0.01 + took, tokens=3)
        if outcome == "ok"
        else failed(at, outcome, end_s=None if outcome == "not_sent" else at + took)
        for at, outcome, took in drawn
    ]
    seen = Observations(records(rows))
    counts = {one.name: one.count for one in outcome_counts(seen, len(rows))}
    assert sum(counts.values()) == len(rows)
    assert int(seen.is_sent.sum()) == len(rows) - counts.get("not_sent", 0) - counts.get("unrecorded", 0)
    overall = measured(rows)["overall"]
    latency = overall.distribution("latency")
    assert (latency.count if latency else 0) == counts.get("ok", 0)
    for figure in overall.figures.values():
        if isinstance(figure, Distribution):
            assert figure.min <= figure.p50 <= figure.p90 <= figure.p95 <= figure.p99 <= figure.max
            assert not any(math.isnan(value) for value in (figure.mean, figure.min, figure.max))


@pytest.mark.parametrize("part", [1, 3, 64])
def test_tokens_are_counted_the_same_in_parts_of_any_size(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    monkeypatch.setattr(observations, "_PART", part)
    rows = [ok(k / 2, first_s=k / 2 + 0.1, last_s=k / 2 + 1.1, tokens=5) for k in range(10)]
    rows += [failed(k / 2 + 0.1, "rejected", end_s=k / 2 + 0.2) for k in range(5)]
    # Tokens at 0.1, 0.35, 0.6, 0.85 and 1.1 s after each planned moment: the last answer's at 4.6 to 5.6 s.
    arrived = Observations(records(rows)).tokens_between(np.array([0.0, 0.5, 1.0, 5.0, 5.5]))
    assert arrived.tolist() == [2.0, 4.0, 40.0, 3.0]
    assert measured(rows, length_s=10.0)["overall"].value("output_token_rate") == pytest.approx(5.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 6)), min_size=1, max_size=20))
def test_every_token_event_arrives_exactly_once(drawn: list[tuple[float, int]]) -> None:
    rows = [ok(at, first_s=at, last_s=at + 0.5, tokens=count) for at, count in drawn]
    moments, tokens = Observations(records(rows)).token_arrivals()
    assert len(moments) == sum(count for _, count in drawn)
    assert tokens.sum() == pytest.approx(sum(count for _, count in drawn))
    assert np.nanmax(moments) == pytest.approx(
        max(at + (0.5 if count > 1 else 0) for at, count in drawn), abs=1e-4
    )


MOMENTS = st.tuples(st.floats(0, 5), st.integers(1, 6), st.floats(0, 3), st.booleans(), st.booleans())


@given(st.lists(MOMENTS, min_size=1, max_size=12), st.lists(st.floats(0, 9), min_size=2, max_size=5))
def test_tokens_between_edges_are_the_events_between_them(
    drawn: list[tuple[float, int, float, bool, bool]], edges: list[float]
) -> None:
    # Among them answers that tell no tokens, and those that were cut off after some of theirs.
    rows = [
        ok(at, first_s=at, last_s=at + took, tokens=count, **({} if tells else {"output_tokens": None}))
        | ({} if ended else {"outcome": "timeout_gap"})
        for at, count, took, tells, ended in drawn
    ]
    seen = Observations(records(rows))
    moments, tokens = seen.token_arrivals()
    # Not on an edge, where the last moment and the sum of the rounded gaps may fall to either side.
    edges_s = np.sort(np.asarray(edges))
    assume(np.abs(moments[:, None] - edges_s).min() > 1e-5)
    among, _ = np.histogram(moments, np.unique(edges_s), weights=tokens)
    assert seen.tokens_between(np.unique(edges_s)) == pytest.approx(among)


@pytest.mark.parametrize("part", [1, 3, 64])
def test_gaps_are_those_of_the_successes_however_records_are_chunked(
    monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(observations, "_PART", part)
    gaps = [[30, 10], None, [20], [], [50, 60], [40]]
    rows = [
        ok(k, first_s=k + 0.1, last_s=k + 0.2, chunk_gap_us=those)
        | ({"outcome": "reset"} if those == [50, 60] else {})
        for k, those in enumerate(gaps)
    ]
    whole = records(rows)
    for table in (whole, pa.concat_tables([whole.slice(0, 2), whole.slice(2)]), whole.slice(1)):
        found = Observations(table).chunk_gaps_us()
        assert found.tolist() == ([20, 40] if table.num_rows == 5 else [10, 20, 30, 40])


def test_a_window_has_its_records_wherever_they_stand() -> None:
    labels = ["baseline", "peak-1", "baseline", "peak-1", "recovery-1"]
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.2, window=label) for k, label in enumerate(labels)]
    whole = records(rows)
    for table in (whole, pa.concat_tables([whole.slice(0, 1), whole.slice(1)])):
        found = {label: those.planned_s.tolist() for label, those in Observations(table).by_window()}
        assert found == {"baseline": [0, 2], "peak-1": [1, 3], "recovery-1": [4]}
    assert list(Observations(whole.slice(0, 0)).by_window()) == []
