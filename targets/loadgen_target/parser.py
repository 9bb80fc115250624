"""The command line: which flags there are, and what `--help` teaches."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loadgen_target.byte_tokenizer import export_tokenizer
from loadgen_target.config import PRESETS, ConfigError

_UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_ABOUT = """\
A small inference server with a batching policy of your choice: a real transformer with weights from a seed,
OpenAI's HTTP interface, and the time of every stage told. It exists to be measured.

  receipt > preprocess queue > text to tokens > inference queue > POLICY > steps of a batch > answer
  refused here, above --max-queue-size                            --policy decides who starts when

A step gives one token to each row of a batch and costs about the same for 1 row as for 8. So a policy gains by
filling batches, and loses by making requests wait for that, or rows wait for the longest of their batch."""
_EXAMPLES = """\
examples:
  loadgen serve --policy dynamic --max-batch-size 8 --max-wait-ms 150 --request-log requests.parquet
  loadgen serve --policy continuous --max-num-seqs 16 --timeout none --max-queue-size 1000   # what it can carry
  loadgen serve --policy serial --preprocess-ms 20                  # the device idles while texts are read
  loadgen serve --policy null --port 0                              # what HTTP alone can carry
  curl -N http://127.0.0.1:8000/v1/completions -d '{"prompt": "Hello", "max_tokens": 16, "stream": true}'

Ready when standard error says `loadgen-target ready on http://HOST:PORT`. SIGTERM or Ctrl-C finishes what runs
and ends with 0; a second one stops at once. Exit codes: 0 fine, 1 the engine died, 2 wrong use.
More, with what each policy costs: docs/target.md."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # raises instead of leaving the process
        raise ConfigError(message, hint="--help lists the flags")


class _Export(argparse.Action):
    """Writes the tokenizer and leaves, as --help does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        assert isinstance(values, Path)
        try:
            export_tokenizer(values)
        except OSError as error:
            raise ConfigError(
                f"--export-tokenizer {values}: {error.strerror}", hint="give a folder that can be written to"
            ) from None
        parser.exit(0)


def make_parser() -> argparse.ArgumentParser:
    """The parser. Wrong use raises ConfigError; --help and --export-tokenizer leave with SystemExit(0)."""
    parser = _Parser(
        prog="loadgen serve",
        usage="loadgen serve [FLAGS]",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_batching(parser)
    _add_limits(parser)
    _add_model(parser)
    _add_server(parser)
    return parser


def _add_batching(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("batching: when waiting requests enter the engine")
    add = group.add_argument
    add(
        "--policy",
        choices=["serial", "fixed-window", "dynamic", "continuous", "null"],
        default="continuous",
        help=(
            "serial: one at a time; fixed-window: at each tick, all that wait; dynamic: full, or waited; "
            "continuous: join between any two steps; null: no model, tokens at once (default: continuous)"
        ),
    )
    add(
        "--max-batch-size",
        "--max-num-seqs",
        type=_count,
        metavar="N",
        help="rows of a batch (default: 8; 1024 for null; serial always runs 1)",
    )
    add(
        "--max-wait-ms",
        type=_number,
        default=150.0,
        metavar="MS",
        help="dynamic: longest wait for the batch to fill (default: 150)",
    )
    add(
        "--max-queue-delay-microseconds",
        type=lambda text: _number(text) / 1e3,
        dest="max_wait_ms",
        default=argparse.SUPPRESS,
        metavar="US",
        help="the same in microseconds",
    )
    add(
        "--batch-wait-timeout-s",
        type=lambda text: _number(text) * 1e3,
        dest="max_wait_ms",
        default=argparse.SUPPRESS,
        metavar="S",
        help="the same in seconds",
    )
    add(
        "--window-ms",
        type=_number,
        default=100.0,
        metavar="MS",
        help="fixed-window: distance of ticks (default: 100)",
    )
    add(
        "--max-inflight-batches",
        "--max-concurrent-batches",
        type=_count,
        default=1,
        metavar="N",
        help="fixed-window and dynamic: batches stepped in turn, 1 to 4 (default: 1)",
    )
    add(
        "--max-num-batched-tokens",
        type=_count,
        default=512,
        metavar="N",
        help="continuous: tokens of one iteration, new prompts included (default: 512)",
    )
    add(
        "--enable-chunked-prefill",
        action=argparse.BooleanOptionalAction,
        default=False,
        help=(
            "continuous: read prompts in parts that fit the tokens of one iteration, in one pass with the rows "
            "that decode (default: a prompt is read whole, before the decode step)"
        ),
    )
    add(
        "--static-release",
        choices=["batch", "request"],
        default="batch",
        help="serial, fixed-window, dynamic: a finished request leaves with its batch, or at once (default: batch)",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("stages and limits")
    add = group.add_argument
    add(
        "--pipeline",
        choices=["inline", "staged"],
        help="preprocess on the engine's own thread, or on workers beside it (default: staged; serial: inline)",
    )
    add(
        "--preprocess-workers",
        type=_count,
        default=1,
        metavar="N",
        help="threads of the staged pipeline (default: 1)",
    )
    add(
        "--preprocess-ms",
        type=_number,
        default=0.0,
        metavar="MS",
        help="CPU time added to each request's preprocessing, for a heavier tokenizer (default: 0)",
    )
    add(
        "--tokenizer",
        type=Path,
        metavar="FILE",
        help="a tokenizer.json to run on each text, for its CPU time; tokens stay bytes",
    )
    add(
        "--max-queue-size",
        "--max-queued-requests",
        type=_count,
        default=64,
        metavar="N",
        help="waiting requests, preprocessing included, above which new ones are refused (default: 64)",
    )
    add(
        "--overload-status",
        type=int,
        choices=[429, 503],
        default=429,
        help="status code of a refusal (default: 429)",
    )
    add(
        "--timeout",
        type=_timeout,
        default=3.0,
        metavar="TIME",
        help="longest time of a request, such as 500ms or 3s, or none (default: 3s)",
    )
    add(
        "--default-timeout-microseconds",
        type=lambda text: _timeout(f"{text}us") if text != "0" else None,
        dest="timeout",
        default=argparse.SUPPRESS,
        metavar="US",
        help="the same in microseconds; 0 for none",
    )
    add(
        "--timeout-scope",
        choices=["request", "queue"],
        default="request",
        help="from receipt to the end, or to the start of execution (default: request)",
    )
    add(
        "--shutdown-timeout",
        type=_duration,
        default=30.0,
        metavar="TIME",
        help="for running requests to finish after SIGTERM (default: 30s)",
    )
    add(
        "--step-delay-ms",
        type=_number,
        default=0.0,
        metavar="MS",
        help="real sleep in each step, to plant a regression",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("model")
    add = group.add_argument
    sizes = ", ".join(PRESETS)
    add("--preset", choices=list(PRESETS), help=f"{sizes} (default: cpu-25m; gpu-1b on cuda)")
    add(
        "--max-model-len",
        type=_count,
        metavar="N",
        help="prompt and answer tokens together (default: the preset's)",
    )
    add("--seed", type=int, default=0, metavar="N", help="of the weights (default: 0)")
    add(
        "--weights",
        type=Path,
        metavar="FILE",
        help="safetensors with a Llama checkpoint's names and the preset's shapes (default: from the seed)",
    )
    add(
        "--dtype",
        choices=["auto", "float32", "bfloat16"],
        default="auto",
        help="auto: float32 on a CPU, bfloat16 on a GPU (default: auto)",
    )
    add(
        "--device",
        choices=["auto", "cpu", "cuda"],
        default="cpu",
        help="auto takes cuda if there (default: cpu)",
    )
    add(
        "--num-threads",
        type=_count,
        metavar="N",
        help="threads of a forward pass (default: cores - 1; 1 on one or two cores)",
    )
    add(
        "--cpu-prepack",
        choices=["auto", "off"],
        default="auto",
        help="weights packed once for the CPU's kernels, where torch can (default: auto)",
    )
    add(
        "--enforce-eager",
        action="store_true",
        help="CUDA: launch kernel by kernel; without it, decode steps are CUDA graphs",
    )
    add(
        "--cudagraph-capture-sizes",
        type=_count,
        nargs="+",
        metavar="N",
        help="CUDA: rows of the captured steps (default: powers of two, and a full batch)",
    )
    add(
        "--profile-steps",
        type=lambda text: 0 if text == "0" else _count(text),
        default=8,
        metavar="N",
        help="CUDA: passes of each size to profile at the start for the kernels' share, 0 for none (default: 8)",
    )


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("server")
    add = group.add_argument
    add("--host", default="127.0.0.1", help="(default: 127.0.0.1)")
    add("--port", type=int, default=8000, help="0 takes a free one, told in the ready line (default: 8000)")
    add(
        "--restart-engine",
        action="store_true",
        help="start the engine again if its process dies (default: end with code 1)",
    )
    add(
        "--export-tokenizer",
        action=_Export,
        type=Path,
        metavar="FOLDER",
        help="write the byte tokenizer there, for other load generators, and leave",
    )
    add("--served-model-name", metavar="NAME", help="in /v1/models and answers (default: the preset's name)")
    add(
        "--request-log",
        type=Path,
        metavar="FILE.parquet",
        help="one row a request, complete when the server has ended",
    )
    add("--step-log", type=Path, metavar="FILE.parquet", help="one row a forward pass")
    add(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="JSON with url and pid, written once the server is ready",
    )


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _number(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return float(text)


def _duration(text: str) -> float:
    """Seconds of `150ms`, `3s` or `2m`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s|m)", text.strip())
    if found is None:
        if text.strip() == "0":
            return 0.0
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration; give a number with a unit, such as 500ms or 3s"
        )
    return float(found[1]) * _UNIT_S[found[2]]


def _timeout(text: str) -> float | None:
    return None if text.strip() == "none" else _duration(text)
