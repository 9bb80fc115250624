"""The command line: what flags become, what is refused, and how that is said."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loadgen_target.config import ConfigError
from loadgen_target.flags import parse_flags


def test_without_flags_it_batches_continuously_on_the_cpu_within_3_seconds() -> None:
    config = parse_flags([])
    engine, policy = config.engine, config.engine.policy
    assert (policy.name, policy.max_batch_size, policy.release) == ("continuous", 8, "batch")
    assert (engine.preset, engine.device, engine.is_inline) == ("cpu-25m", "cpu", False)
    assert (config.timeout_s, config.max_queue_size, config.overload_status) == (3.0, 64, 429)


def test_null_takes_all_that_come_and_has_no_models_name() -> None:
    config = parse_flags(["--policy", "null"])
    policy = config.engine.policy
    assert (policy.max_batch_size, policy.max_num_batched_tokens) == (1024, 1_000_000)
    assert config.served_model_name == "null"
    assert parse_flags(["--policy", "null", "--max-batch-size", "4"]).engine.policy.max_batch_size == 4


def test_a_model_has_its_presets_name_unless_told_another() -> None:
    assert parse_flags(["--preset", "tiny"]).served_model_name == "tiny"
    assert parse_flags(["--preset", "tiny", "--served-model-name", "mine"]).served_model_name == "mine"


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 2), (16, 15)])
def test_a_step_leaves_a_core_to_the_rest(cores: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert parse_flags([]).engine.num_threads == threads
    assert parse_flags(["--num-threads", "7"]).engine.num_threads == 7


def test_serial_preprocesses_inline_unless_told_otherwise() -> None:
    assert parse_flags(["--policy", "serial"]).engine.is_inline
    assert not parse_flags(["--policy", "serial", "--pipeline", "staged"]).engine.is_inline


@pytest.mark.parametrize(
    ("alias", "flags"),
    [
        (["--max-num-seqs", "4"], ["--max-batch-size", "4"]),
        (["--max-queue-delay-microseconds", "2500"], ["--max-wait-ms", "2.5"]),
        (["--default-timeout-microseconds", "500000"], ["--timeout", "500ms"]),
        (["--default-timeout-microseconds", "0"], ["--timeout", "none"]),
        (["--batch-wait-timeout-s", "0.01"], ["--max-wait-ms", "10"]),
        (["--max-queued-requests", "9"], ["--max-queue-size", "9"]),
        (
            ["--policy", "dynamic", "--max-concurrent-batches", "2"],
            ["--policy", "dynamic", "--max-inflight-batches", "2"],
        ),
        (
            ["--max_num_seqs=4", "--enable_chunked_prefill"],
            ["--max-batch-size", "4", "--enable-chunked-prefill"],
        ),
        (["--no-enable-chunked-prefill"], []),
    ],
)
def test_a_name_of_another_server_means_the_same(alias: list[str], flags: list[str]) -> None:
    assert parse_flags(alias) == parse_flags(flags)


@pytest.mark.parametrize(
    ("text", "timeout_s"), [("250us", 0.00025), ("1.5s", 1.5), ("2m", 120.0), ("none", None)]
)
def test_a_timeout_has_a_unit(text: str, timeout_s: float | None) -> None:
    assert parse_flags(["--timeout", text]).timeout_s == timeout_s


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--max-inflight-batches", "2"], "no meaning for --policy continuous"),
        (["--policy", "dynamic", "--max-inflight-batches", "5"], "is 5"),
        (["--policy", "dynamic", "--enable-chunked-prefill"], "no meaning for --policy dynamic"),
        (["--enable-chunked-prefill", "--max-num-batched-tokens", "7"], "do not fit"),
        (["--weights", "nowhere.safetensors"], "no such file"),
        (["--tokenizer", "nowhere.json"], "no such file"),
        (["--profile-steps", "-1"], "'-1'"),
        (["--timeout", "0s"], "not above 0"),
        (["--window-ms", "0"], "not above 0"),
        (["--max-model-len", "1"], "is 1"),
        (["--max-wait-ms", "nan"], "'nan'"),
        (["--max-batch-size", "1.5"], "'1.5'"),
        (["--request-log", "x.parquet", "--step-log", "x.parquet"], "same file"),
        (["--ready-file", "."], "is a folder"),
    ],
)
def test_a_setting_that_cannot_be_used_is_told_with_its_value(flags: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_flags(flags)
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--policy", "fastest"], "fastest"),
        (["--max-batch-size", "0"], "max-batch-size"),
        (["--timeout", "soon"], "soon"),
        (["--port", "70000"], "70000"),
        (["--request-log", "/no/such/folder/x.parquet"], "/no/such/folder"),
        (["--polcy", "serial"], "--polcy"),
        (["--polic", "serial"], "--polic"),
    ],
)
def test_wrong_flags_are_one_line_and_code_2(flags: list[str], said: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loadgen_target", *flags], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert said in ended.stderr and len(ended.stderr.splitlines()) == 1 and "Traceback" not in ended.stderr


def test_help_names_the_verb_and_gives_an_example() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "loadgen_target", "--help"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("usage: loadgen serve") and "loadgen serve --policy" in ended.stdout
