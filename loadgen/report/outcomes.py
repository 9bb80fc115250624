"""Outcomes: how planned requests ended, with each failure's own timing, and how answers fell short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from loadgen.replay.request_record import OWN_FAULTS, UNDECIDED, Outcome
from loadgen.report.figures import Distribution, Missing, distribution
from loadgen.report.observations import Observations

_NUM_EXAMPLES = 3
_NOT_ALLOWED = ("HTTP 401", "HTTP 403")


@dataclass(frozen=True, slots=True)
class OutcomeCount:
    """One outcome. duration: from the send to the end, in s; examples: error texts.

    What failed to connect was never sent: it is timed from the attempt.
    """

    name: str
    count: int
    counts_against: str
    duration: Distribution | Missing
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Where output token counts came from, and how far answers fell short of the planned length.

    short: successful answers with fewer tokens than planned; missing_tokens: their sum.
    coalesced_share: token events that came in the same read as the one before, of all.
    """

    from_usage: int
    from_chunks: int
    short: int
    missing_tokens: int
    coalesced_share: float | Missing


def outcome_counts(seen: Observations, planned: int, *, is_complete: bool = True) -> list[OutcomeCount]:
    """Every outcome that occurred, ok first; a killed run's requests without a record are `unrecorded`.

    What a run that was ended early did not send is on nobody's account.
    """
    sent_s = seen.sent_s
    begun_s = np.where(np.isnan(sent_s), seen.seconds("dispatched_ns"), sent_s)
    durations = seen.seconds("end_ns") - begun_s
    errors = np.asarray(seen.records.column("error").to_pylist(), dtype=object)
    counts: list[OutcomeCount] = []
    without_record = planned - seen.records.num_rows
    for outcome in Outcome:
        mask = np.asarray(seen.outcome == outcome.value, dtype=bool)
        count = int(mask.sum()) + (without_record if outcome is Outcome.UNRECORDED else 0)
        if not count:
            continue
        texts = dict.fromkeys(text for text in errors[mask] if text)
        counts.append(
            OutcomeCount(
                outcome.value,
                count,
                "nobody" if outcome is Outcome.NOT_SENT and not is_complete else against(outcome),
                distribution(durations[mask], "none of them was sent and ended"),
                tuple(list(texts)[:_NUM_EXAMPLES]),
            )
        )
    return counts


def against(outcome: Outcome) -> str:
    """On whose account an outcome goes: the target, the generator, or nobody."""
    if outcome is Outcome.OK or outcome in UNDECIDED:
        return "nobody"
    return "the generator" if outcome in OWN_FAULTS else "the target"


def key_warnings(outcomes: Iterable[OutcomeCount]) -> Iterator[str]:
    """A warning where the target did not accept who asked."""
    for outcome in outcomes:
        for text in outcome.examples:
            if text.startswith(_NOT_ALLOWED):
                yield (
                    f"the target answered {text[:8]}: it asks for a key, or for another one; give it with "
                    "--api-key-file or LOADGEN_API_KEY"
                )
                return


def token_counts(seen: Observations) -> Tokens:
    source = np.asarray(seen.records.column("tokens_source").cast(pa.string()).to_pylist(), dtype=object)
    tokens, planned = seen.numbers("output_tokens"), seen.numbers("output_tokens_planned")
    lack = np.where(seen.is_ok, np.maximum(planned, 1) - tokens, np.nan)
    short = lack > 0
    chunks, coalesced = seen.numbers("num_chunks"), seen.numbers("num_coalesced")
    events = float(np.nansum(chunks[seen.is_ok]))
    return Tokens(
        from_usage=int((seen.is_ok & (source == "usage")).sum()),
        from_chunks=int((seen.is_ok & (source == "chunks")).sum()),
        short=int(short.sum()),
        missing_tokens=int(lack[short].sum()),
        coalesced_share=float(np.nansum(coalesced[seen.is_ok])) / events
        if events
        else Missing("no token events"),
    )
