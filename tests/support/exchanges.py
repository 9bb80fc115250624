"""A request of the bundled server that was served, with a moment for each of its stages."""

from __future__ import annotations

from loadgen_target.exchange import Exchange
from loadgen_target.request import Began, Emission, Ended, Status

MS = 1_000_000
RECV = 5_000 * MS


def served() -> Exchange:
    """Parsed 1 ms after receipt, preprocessed 3 to 7, queued 8 to 20, first token 30, last of 5 tokens 70."""
    exchange = Exchange(1, None, recv_ns=RECV, recv_unix_ns=9)
    exchange.parsed_ns = RECV + 1 * MS
    exchange.pre_start_ns, exchange.pre_end_ns = RECV + 3 * MS, RECV + 7 * MS
    began = Began(
        pre_start_ns=exchange.pre_start_ns,
        pre_end_ns=exchange.pre_end_ns,
        enqueued_ns=RECV + 8 * MS,
        exec_start_ns=RECV + 20 * MS,
        prefill_end_ns=RECV + 30 * MS,
        first_token_ns=RECV + 30 * MS,
        batch_at_start=3,
    )
    exchange.push(Emission(1, (65,), began))
    exchange.push(Emission(1, (65,) * 4, None, Ended(Status.OK, "length", 0, RECV + 70 * MS, 5, 2.5, 5)))
    exchange.finished_ns = RECV + 71 * MS
    return exchange
