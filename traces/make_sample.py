"""Write the sample logs beside this file: 75 s of made-up traffic, in bursts of tens of ms and then silence.

Usage: python traces/make_sample.py
Same seed, same bytes. sample-access.log.1 is the older part, as a log rotation leaves it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

SEED = 20261201
START_S = 1_796_115_600  # 2026-12-01 09:00:00 UTC
SPAN_S = 75.0
NUM_REQUESTS = 250


def arrivals_s(rng: np.random.Generator) -> list[float]:
    """Moments of arrival: bursts of 4 to 14 requests within tens of ms, and some requests on their own."""
    moments: list[float] = []
    while len(moments) < NUM_REQUESTS - 40:
        begin = rng.uniform(0, SPAN_S)
        size = int(rng.integers(4, 15))
        moments += (begin + rng.uniform(0, 0.03, size)).tolist()
    moments = moments[: NUM_REQUESTS - 40]
    return sorted([*moments, *rng.uniform(0, SPAN_S, 40).tolist()])


def line(end_s: float, took_s: float, request: str, status: int, sizes: tuple[int, int]) -> str:
    """One line: the combined format of nginx, with duration, moment in ms and sizes behind it."""
    stamp = datetime.fromtimestamp(int(end_s), UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    received, sent = sizes
    return (
        f'192.0.2.1 - - [{stamp}] "{request}" {status} {max(0, sent - 180)} "-" "sample/1" '
        f"rt={took_s:.3f} msec={end_s:.3f} rl={received} bs={sent}"
    )


def main() -> None:
    rng = np.random.default_rng(SEED)
    lines: list[tuple[float, str]] = []
    for arrival_s in arrivals_s(rng):
        prompt_bytes = int(np.clip(rng.lognormal(5.6, 0.8), 40, 4000))
        answer_bytes = int(np.clip(rng.lognormal(5.2, 0.9), 20, 3000))
        took_s = round(0.08 + answer_bytes / 4 * 0.006 * rng.uniform(0.8, 1.6), 3)
        end_s = START_S + round(arrival_s, 3) + took_s
        status = 200 if rng.random() > 0.02 else 429
        request = "POST /v1/completions HTTP/1.1"
        lines.append((end_s, line(end_s, took_s, request, status, (260 + prompt_bytes, 180 + answer_bytes))))
    for at_s in range(5, int(SPAN_S), 10):
        end_s = START_S + at_s + 0.001
        lines.append((end_s, line(end_s, 0.0, "GET /health HTTP/1.1", 200, (98, 190))))
    lines.sort(key=lambda one: one[0])
    texts = [text for _, text in lines]
    texts.insert(180, texts[179][:47])  # a line cut short, as a full disk leaves it
    here = Path(__file__).parent
    half = len(texts) * 3 // 5
    for name, part in (("sample-access.log.1", texts[:half]), ("sample-access.log", texts[half:])):
        (here / name).write_text("\n".join(part) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
