"""How fast logs are recorded, on one core and on all, beside a plain scan of the same file; and in how much memory.

Rounds in which all take turns; medians of each round's figures, so that a busy machine slows all alike. Needs
`pip install polars` for the scan; GoAccess takes part where its command is there.

    python benchmarks/record_speed.py --megabytes 1000
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

_WORDS = (
    "harbor",
    "sensor",
    "Straße",
    "table window",
    "river",
    "batch",
    "copper engine",
    "Überblick",
    "天気",
    "orbit",
)
_AGENTS = ("demo/1", "python-httpx/0.27.0", "OpenAI/Python 1.40.2", "Mozilla/5.0 (X11; Linux x86_64)")
_POLARS = """
import sys, polars as pl
usage = pl.col("usage").struct
pl.scan_ndjson(sys.argv[1]).select(
    pl.col("ts").max(), usage.field("prompt_tokens").sum(), usage.field("completion_tokens").sum(),
    pl.col("duration_ms").sum(),
).collect()
"""
_JSONL_OPTIONS = (
    *("--format", "jsonl", "--time", "ts", "--duration-field", "duration_ms", "--status-field", "status"),
    *("--input-tokens", "usage.prompt_tokens", "--output-tokens", "usage.completion_tokens"),
)


def nginx_lines(rng: random.Random) -> Iterator[str]:
    """A timed access log in order of completion, some of it no traffic of ours."""
    t = 1_792_890_000.0
    while True:
        t += rng.expovariate(300)
        method, path = ("POST", "/v1/chat/completions") if rng.random() < 0.8 else ("GET", "/health")
        sent = rng.randrange(300, 9000)
        yield (
            f'192.0.2.{rng.randrange(250)} - - [25/Oct/2026:02:00:01 +0100] "{method} {path} HTTP/1.1" '
            f'{rng.choice((200, 200, 200, 499, 429))} {sent - 200} "-" "{rng.choice(_AGENTS)}" '
            f"rt={rng.randrange(5, 60_000) / 1000:.3f} msec={t:.3f} rl={rng.randrange(300, 30_000)} bs={sent}\n"
        )


def jsonl_lines(rng: random.Random, *, with_texts: bool) -> Iterator[str]:
    """What an application logs of its calls, with the prompts or without."""
    t = 1_792_890_000.0
    while True:
        t += rng.expovariate(300)
        text = " ".join(rng.choices(_WORDS, k=rng.randrange(10, 120))) + ' "quoted"\n' if with_texts else ""
        record = {
            "ts": int(t * 1000),
            "request_id": f"req-{rng.getrandbits(48):012x}",
            "path": "/v1/chat/completions",
            "status": 200,
            "model": "demo-7b",
            **({"messages": [{"role": "user", "content": text}]} if with_texts else {}),
            "usage": {"prompt_tokens": rng.randrange(4000), "completion_tokens": rng.randrange(500)},
            "duration_ms": rng.randrange(5, 60_000) / 10,
        }
        yield json.dumps(record, ensure_ascii=False) + "\n"


def write_log(path: Path, lines: Iterator[str], num_bytes: int) -> None:
    """About `num_bytes` of log: 32 MB of different lines, over and over."""
    piece: list[str] = []
    size = 0
    while size < min(num_bytes, 32 << 20):
        line = next(lines)
        piece.append(line)
        size += len(line.encode())
    block = "".join(piece).encode()
    with path.open("wb") as file:
        for _ in range(max(1, num_bytes // len(block))):
            file.write(block)


def run(command: Sequence[str], env: dict[str, str]) -> tuple[float, float, float]:
    """(wall s, CPU s, most MB resident in all its processes together) of a command that has to succeed."""
    before = os.times()
    started_s = time.perf_counter()
    process = psutil.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    most_bytes = 0
    while process.poll() is None:
        most_bytes = max(most_bytes, _resident_bytes(process))
        time.sleep(0.05)
    wall_s = time.perf_counter() - started_s
    if process.returncode:
        sys.exit(f"{' '.join(command[:3])} ... ended with {process.returncode}")
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return wall_s, cpu_s, most_bytes / 1e6


def _resident_bytes(process: psutil.Process) -> int:
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def contenders(log: Path, kind: str, trace: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """What is measured on a log: name -> command and environment."""
    options = ("--format", "nginx") if kind == "nginx" else _JSONL_OPTIONS
    record = [sys.executable, "-m", "loadgen", "record", str(log), *options, "-o", str(trace), "--force"]
    found: dict[str, tuple[list[str], dict[str, str]]] = {
        "loadgen, 1 worker": ([*record, "--workers", "1"], {}),
        "loadgen, all cores": (record, {}),
    }
    if kind == "nginx":
        goaccess = shutil.which("goaccess")
        if goaccess:
            found["goaccess"] = (
                [goaccess, str(log), "--log-format=COMBINED", "-o", str(trace) + ".json"],
                {},
            )
    elif importlib.util.find_spec("polars") is not None:
        scan = [sys.executable, "-c", _POLARS, str(log)]
        found["polars scan, 1 thread"] = (scan, {"POLARS_MAX_THREADS": "1"})
        found["polars scan, all cores"] = (scan, {})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", default="nginx,jsonl,jsonl-texts")
    args = parser.parse_args()
    makers = {
        "nginx": nginx_lines(random.Random(1)),
        "jsonl": jsonl_lines(random.Random(1), with_texts=False),
        "jsonl-texts": jsonl_lines(random.Random(1), with_texts=True),
    }
    print(f"{os.cpu_count()} cores; {args.rounds} rounds; medians\n")
    print("| log | MB | bytes a line | what | MB/s, wall | MB per CPU s | MB resident |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for kind in args.kinds.split(","):
            log = Path(folder) / f"{kind}.log"
            write_log(log, makers[kind], args.megabytes * 10**6)
            size_mb = log.stat().st_size / 1e6
            with log.open("rb") as file:
                start = file.read(1 << 20)
            line_bytes = len(start) // start.count(b"\n")
            entrants = contenders(log, kind, Path(folder) / "trace.parquet")
            results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in entrants}
            for _ in range(args.rounds):
                for name, (command, env) in entrants.items():
                    results[name].append(run(command, env))
            for name, of_rounds in results.items():
                wall_s, cpu_s, resident_mb = (
                    statistics.median(column) for column in zip(*of_rounds, strict=True)
                )
                print(
                    f"| {kind} | {size_mb:.0f} | {line_bytes} | {name} | {size_mb / wall_s:.0f} | "
                    f"{size_mb / cpu_s:.0f} | {resident_mb:.0f} |",
                    flush=True,
                )
            log.unlink()


if __name__ == "__main__":
    main()
