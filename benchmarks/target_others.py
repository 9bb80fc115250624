"""Load generators that others wrote against the bundled server: do their counts agree with its request log?

    python benchmarks/target_others.py --guidellm G/bin/guidellm --aiperf A/bin/aiperf \\
        --inference-perf I/bin/inference-perf [--write docs/target-others.md]

Each tool is given as its command, from an environment of its own; one that is not given is left out. A tool and a
policy are one streaming run at a fresh server. Two minutes a tool.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from loadgen.compare.ab_target import AbTarget, started

POLICIES = ("serial", "fixed-window", "dynamic", "continuous")
URL = "http://127.0.0.1:8000"  # in the page
SERVE = "--timeout none --max-queue-size 1000"
# Beside the run's own folder, `tok` is the exported tokenizer; {url} is the server, {out} a folder for results.
INFERENCE_PERF = """
api: {type: completion, streaming: true}
data:
  type: random
  input_distribution: {min: 8, max: 64, mean: 32, std_dev: 8, total_count: 40}
  output_distribution: {min: 4, max: 64, mean: 24, std_dev: 8, total_count: 40}
load: {type: constant, interval: 0, num_workers: 1, stages: [{rate: 8, duration: 5}]}
server: {type: vllm, model_name: cpu-25m, base_url: "URL", ignore_eos: true}
tokenizer: {pretrained_model_name_or_path: ./tok}
storage: {local_storage: {path: OUT}}
"""

ABOUT = """
# Other load generators at the bundled server

Three others were installed from the registry, each into an environment of its own (`python -m venv g`, then
`g/bin/pip install guidellm`; inference-perf needs Python 3.12): {versions}.
Each ran once for each policy, streaming, at a fresh server. `python
benchmarks/target_others.py --guidellm g/bin/guidellm --aiperf .. --inference-perf .. --write docs/target-others.md`
does it all and made this page. By hand:

```
loadgen serve --export-tokenizer tok
loadgen serve --policy dynamic {serve} --request-log requests.parquet
```

`tok` is the byte tokenizer as files. With it the tools make prompts as long as they mean to, and those that count
the text that came count as the server does; nothing is fetched. SIGTERM ends the server and completes its log.
"""
COUNTED = "A tool's own counts beside those in the request log of the same run; mean batch as the log has it."
LEARNT = """
## What was learnt

- All three are served as they come. What they rely on: `/v1/models` or a model's name, one event with text
  for each token, no event with the role alone, and the counts in an event without choices.
- Compare with the log, not with what was asked for: inference-perf draws how many requests 8 a second for 5 s are.
- AIPerf's requests carry their own `X-Request-Id`, which the request log keeps: of its 40 requests each was found
  there with the same number of tokens. GuideLLM keeps the server's `metrics` of the last event.
- AIPerf reads `/metrics` by itself and exports what it found, the server's own names beside vLLM's.
- GuideLLM's "stream iterations" are tokens and two more, the event with the counts and the end mark.
- `--tokenizer ./tok`, with the dot: a bare name is looked up elsewhere. `ignore_eos` makes answers as long as they
  were drawn; GuideLLM and inference-perf send it by themselves.
"""


@dataclass(frozen=True)
class Counts:
    """What one run was. The tokens are the tool's own count of them, or the log's."""

    requests: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Tool:
    """arguments: with {url} and {out} for what differs from run to run. read: its counts, from its results."""

    name: str
    arguments: str
    read: Callable[[Path], Counts]
    counted_by: str


def guidellm_counts(out: Path) -> Counts:
    metrics = json.loads(out.with_suffix(".json").read_text())["benchmarks"][0]["metrics"]
    tokens = [
        metrics[name]["successful"]["total_sum"] for name in ("prompt_token_count", "output_token_count")
    ]
    return Counts(metrics["request_totals"]["successful"], *map(round, tokens))


def aiperf_counts(out: Path) -> Counts:
    found = [
        json.loads(line)["metrics"]
        for line in (out / "profile_export.jsonl").read_text().splitlines()
        if line
    ]

    def total(name: str) -> int:
        return sum(int(one[name]["value"]) for one in found)

    return Counts(len(found), total("input_sequence_length"), total("output_sequence_length"))


def inference_perf_counts(out: Path) -> Counts:
    done = json.loads((out / "summary_lifecycle_metrics.json").read_text())["successes"]
    means = [done[name]["mean"] for name in ("prompt_tokens", "output_len")]
    return Counts(done["count"], *(round(mean * done["count"]) for mean in means))


TOOLS = (
    Tool(
        "guidellm",
        "run --backend kind=openai_http,target={url},request_format=/v1/chat/completions "
        "--tokenizer kind=huggingface_auto,model=./tok --data kind=synthetic_text,prompt_tokens=32,"
        "output_tokens=24,output_tokens_stdev=8,output_tokens_min=4,output_tokens_max=64 "
        "--profile kind=concurrent,streams=8 --constraint kind=max_requests,count=40 "
        "--output kind=json,path={out}.json --disable-progress",
        guidellm_counts,
        "the server's usage",
    ),
    Tool(
        "aiperf",
        "profile --model cpu-25m --url {url} --endpoint-type chat --streaming --tokenizer ./tok --concurrency 8 "
        "--request-count 40 --prompt-input-tokens-mean 32 --prompt-output-tokens-mean 24 "
        "--prompt-output-tokens-stddev 8 --extra-inputs ignore_eos:true --random-seed 1 --ui none "
        "--output-artifact-dir {out}",
        aiperf_counts,
        "the tokenizer, over the text that came",
    ),
    Tool(
        "inference-perf",
        "-c {out}.yml",
        inference_perf_counts,
        "the tokenizer, over the text that came",
    ),
)


def settings(url: str, out: str) -> str:
    """inference-perf's file of settings."""
    return INFERENCE_PERF.replace("URL", url).replace("OUT", out)


def log_counts(log: Path) -> tuple[Counts, float]:
    """What the server's request log has, and the mean batch over its answers. Exits where one did not end well."""
    rows = pq.read_table(log).to_pylist()
    if wrong := [row for row in rows if row["status"] != "ok" or not row["stream"]]:
        sys.exit(f"{len(wrong)} of {len(rows)} requests are no stream that ended well: {wrong[0]}")
    tokens = (sum(row[name] for row in rows) for name in ("prompt_tokens", "output_tokens"))
    return Counts(len(rows), *tokens), sum(row["mean_batch"] for row in rows) / len(rows)


def run(tool: Tool, command: Path, policy: str, folder: Path) -> tuple[Counts, Counts, float]:
    out, log = folder / f"{tool.name}-{policy}", folder / f"{tool.name}-{policy}.parquet"
    target = AbTarget("serve", f"--policy {policy} {SERVE} --request-log '{log}'")
    with started(target, ready_within_s=120) as url:
        out.with_suffix(".yml").write_text(settings(url, out.name), encoding="utf-8")
        arguments = tool.arguments.format(url=url, out=out.name).split()
        done = subprocess.run(
            [str(command.absolute()), *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{tool.name} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return tool.read(out), *log_counts(log)


def version_of(tool: Tool, command: Path) -> str:
    code = f"from importlib.metadata import version; print(version({tool.name!r}))"
    python = command.absolute().parent / "python"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def as_command(tool: Tool) -> str:
    """The command as a person would write it, one option a line."""
    words = f"{tool.name} {tool.arguments}".format(url=URL, out="out")
    return re.sub(r" (--)", r" \\\n    \1", words)


def page(rows: list[list[str]], versions: dict[str, str]) -> str:
    lines = [
        ABOUT.strip().format(serve=SERVE, versions=", ".join(" ".join(pair) for pair in versions.items())),
        "",
    ]
    for tool in TOOLS:
        if tool.name in versions:
            lines += [f"**{tool.name}** (tokens counted by {tool.counted_by})", "", "```"]
            lines += [as_command(tool), "```", ""]
            if tool.name == "inference-perf":
                lines += ["with `out.yml`:", "", "```", settings(URL, "out").strip(), "```", ""]
    heads = ["tool", "policy", "requests", "in its log", "prompt tokens", "in its log", "output tokens"]
    heads += ["in its log", "mean batch"]
    lines += ["## Counts", "", COUNTED, ""]
    lines += [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]
    return "\n".join(lines) + "\n\n" + LEARNT.strip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for tool in TOOLS:
        parser.add_argument(f"--{tool.name}", type=Path, metavar="COMMAND")
    parser.add_argument("--write", type=Path, help="the page, as Markdown")
    flags = parser.parse_args()
    given = {tool: command for tool in TOOLS if (command := getattr(flags, tool.name.replace("-", "_")))}
    if not given:
        parser.error("give at least one tool")
    rows, differ = [], []
    with tempfile.TemporaryDirectory(prefix="target-others-") as name:
        folder = Path(name)
        serve = [sys.executable, "-m", "loadgen_target"]
        subprocess.run([*serve, "--export-tokenizer", str(folder / "tok")], check=True)
        for tool, command in given.items():
            for policy in POLICIES:
                told, logged, batch = run(tool, command, policy, folder)
                pairs: list[Any] = [
                    cell
                    for field in ("requests", "prompt_tokens", "output_tokens")
                    for cell in (getattr(told, field), getattr(logged, field))
                ]
                rows.append([tool.name, policy, *map(str, pairs), f"{batch:.3g}"])
                print(*rows[-1], file=sys.stderr, flush=True)
                if told != logged:
                    differ.append(f"{tool.name} at {policy}")
        versions = {tool.name: version_of(tool, command) for tool, command in given.items()}
    text = page(rows, versions)
    print(text)
    if flags.write is not None:
        flags.write.write_text(text, encoding="utf-8")
    if differ:
        sys.exit(f"counts differ: {', '.join(differ)}")


if __name__ == "__main__":
    main()
