"""Setting: its flags are those of the server, and what other servers call them."""

from __future__ import annotations

import pytest

from loadgen.advise.setting import Setting, candidates, elsewhere
from loadgen.simulate.simulated_run import server_config

ALL = ("serial", "fixed-window", "dynamic", "continuous")


def test_every_candidate_is_a_setting_the_server_takes_and_no_two_are_the_same() -> None:
    tried = candidates(0.8, max_batch=32, policies=ALL, longest_prompt=300)
    assert len(set(tried)) == len(tried) > 50
    for setting in tried:
        policy = server_config(setting.flags).engine.policy
        assert policy.name == setting.policy
        assert policy.batch_rows == setting.max_batch
        assert policy.max_inflight_batches == setting.inflight
        if setting.policy == "dynamic":
            assert policy.max_wait_ns == round((setting.wait_ms or 0) * 1e6)
    assert {setting.policy for setting in tried} == set(ALL)


@pytest.mark.parametrize("budget_s", [0.02, 0.2, 4.0])
def test_nothing_waits_longer_than_half_of_the_budget(budget_s: float) -> None:
    for setting in candidates(budget_s, max_batch=8, policies=ALL, longest_prompt=10):
        assert max(setting.wait_ms or 0, setting.window_ms or 0) <= budget_s * 500


def test_only_the_policies_asked_for_and_no_larger_batch_are_tried() -> None:
    tried = candidates(1.0, max_batch=8, policies=("dynamic",), longest_prompt=10)
    assert {setting.policy for setting in tried} == {"dynamic"}
    assert max(setting.max_batch for setting in tried) == 8


def test_other_servers_get_their_own_words() -> None:
    static = Setting("dynamic", 8, wait_ms=150, inflight=2, high_water=64)
    joining = Setting("continuous", 16, batched_tokens=512, high_water=32)
    found = {one.server: one.text for one in elsewhere(static, joining, 3.0)}
    assert "max_queue_delay_microseconds: 150000 " in found["Triton"]
    assert "default_timeout_microseconds: 3000000 " in found["Triton"]
    assert "count: 2" in found["Triton"]
    assert "batch_wait_timeout_s=0.15" in found["Ray Serve"]
    assert "max_concurrent_batches=2" in found["Ray Serve"]
    assert found["vLLM"] == "--max-num-seqs 16 --max-num-batched-tokens 512 --max-num-queued-reqs 48"
    assert "--max-concurrent-requests 48" in found["TGI"]
    assert [one.server for one in elsewhere(None, joining, None)] == ["vLLM", "TGI"]
