"""The records of a simulation against what each request's steps say, one request at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadgen.plan.planner import plan
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.shape import Shape
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.records import records_of
from loadgen.simulate.served import OK, TIMEOUT
from loadgen.simulate.simulated_run import serve, server_config
from support.traces import trace_of

COST = CostModel(kv_token_ns=700, receive_us=100, reply_us=250)


@pytest.mark.parametrize(
    "flags",
    [
        "--policy serial --max-queue-size 9",
        "--policy dynamic --max-batch-size 4 --max-wait-ms 30 --max-inflight-batches 3 --timeout 900ms",
        "--policy fixed-window --window-ms 50 --timeout none",
        "--policy continuous --max-batch-size 5 --timeout 700ms --max-queue-size 20",
    ],
)
def test_gaps_and_the_last_token_are_those_of_the_steps_that_made_them(flags: str) -> None:
    rng = np.random.default_rng(3)
    count = 200
    trace = trace_of(
        np.sort(rng.uniform(0, 20, count)).tolist(),
        output_tokens=[int(n) for n in rng.integers(1, 40, count)],
        input_tokens=[int(n) for n in rng.integers(1, 30, count)],
    )
    schedule = plan(trace, Shape())
    arrivals, served = serve(schedule, server_config(flags), COST, PromptMaker(chars_per_token=1))
    records: list[dict[str, Any]] = records_of(
        schedule, arrivals, served, COST, preprocess_ns=0, rejected=503
    ).to_pylist()
    reply_ns = 250_000
    steps_ns = [stretches.ends_ns().tolist() for stretches in served.stretches]
    seen = 0
    for index, record in enumerate(records):
        is_whole = served.status[index] == OK
        made = int(served.output_tokens[index])
        if not is_whole and not (served.status[index] == TIMEOUT and record["first_token_ns"] is not None):
            assert record["chunk_gap_us"] is None
            continue
        joined = int(served.joined[index])
        own_ns = steps_ns[served.batch[index]][joined : joined + made - 1]
        tokens_us = [(moment + reply_ns) // 1000 for moment in own_ns]
        if is_whole and tokens_us:
            tokens_us[-1] = (int(served.ended_ns[index]) + reply_ns) // 1000
        first_us = record["first_token_ns"] // 1000
        assert record["chunk_gap_us"] == np.diff([first_us, *tokens_us]).tolist()
        if not is_whole and made > 1:
            assert record["last_token_ns"] // 1000 == tokens_us[-1]
        seen += bool(tokens_us)
    assert seen > count // 4
