"""The metric table: every figure's name, unit, direction and definition, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure. definition_id changes when, and only when, what is counted changes.

    better: "lower", "higher" or "neither". per_request: it has a distribution over requests.
    """

    name: str
    unit: str
    better: str
    version: int
    per_request: bool
    definition: str

    @property
    def definition_id(self) -> str:
        return f"{self.name}/{self.version}"


METRICS: tuple[Metric, ...] = (
    Metric("latency", "s", "lower", 1, True, "last token minus planned send, of answers that succeeded"),
    Metric(
        "service_latency",
        "s",
        "lower",
        1,
        True,
        "last token minus first byte sent, of answers that succeeded",
    ),
    Metric("lateness", "s", "lower", 1, True, "first byte sent minus planned send, of all that were sent"),
    Metric(
        "dispatch_lateness",
        "s",
        "lower",
        1,
        True,
        "taken up by the generator minus planned send, of all that were sent: our own part of lateness",
    ),
    Metric(
        "ttft",
        "s",
        "lower",
        1,
        True,
        "first token (content, reasoning or tool call) minus planned send, of streams that succeeded",
    ),
    Metric(
        "service_ttft", "s", "lower", 1, True, "first token minus first byte sent, of streams that succeeded"
    ),
    Metric("ttfat", "s", "lower", 1, True, "first token that is not reasoning, minus planned send"),
    Metric(
        "tpot",
        "s",
        "lower",
        1,
        True,
        "(last token minus first token) / (output tokens - 1), of streams of two tokens and more",
    ),
    Metric("chunk_gap", "s", "lower", 1, True, "time between successive token events of one answer"),
    Metric(
        "client_wait",
        "share",
        "lower",
        1,
        False,
        "sum of first byte sent minus planned send over sum of latency, of answers that succeeded",
    ),
    Metric("offered_rate", "req/s", "neither", 1, False, "planned requests per second of the window"),
    Metric(
        "served_rate",
        "req/s",
        "higher",
        1,
        False,
        "requests planned in the window that succeeded, per second",
    ),
    Metric(
        "output_token_rate",
        "tokens/s",
        "higher",
        1,
        False,
        "output tokens by their arrival per second of the window; those of unfinished answers count",
    ),
    Metric(
        "error_rate",
        "share",
        "lower",
        1,
        False,
        "failures of the target, rejections among them, of those decided",
    ),
    Metric(
        "goodput",
        "share",
        "higher",
        1,
        False,
        "requests that succeeded within every bound of --goodput, over those planned; failures and the "
        "unfinished miss",
    ),
    Metric("rejected_share", "share", "lower", 1, False, "answers 429 or 503 of those decided"),
    Metric("queue_share", "share", "lower", 1, False, "server time in the two queues over server total time"),
    Metric(
        "preprocess_queue_share",
        "share",
        "lower",
        1,
        False,
        "server time waiting to be preprocessed over total time",
    ),
    Metric(
        "inference_queue_share",
        "share",
        "lower",
        1,
        False,
        "server time waiting to be executed over total time",
    ),
    Metric(
        "release_share",
        "share",
        "lower",
        1,
        False,
        "server time from a request's last token to its release, over total time: the wait for its batch",
    ),
    Metric(
        "outside_share",
        "share",
        "lower",
        1,
        False,
        "service latency less server total time, over service latency: network and client",
    ),
    Metric(
        "coalesced_share",
        "share",
        "lower",
        1,
        False,
        "token events that came in the same read as the one before, of all but the first of each answer",
    ),
    Metric(
        "delivery_share",
        "share",
        "neither",
        1,
        False,
        "time from first to last token as it came here, over the same as the server tells it: near 0, something "
        "between kept the tokens back and let go of them at once",
    ),
    Metric(
        "tail_own_share",
        "share",
        "neither",
        1,
        False,
        "of the slowest twentieth of the answers: time that their own length explains (median TTFT, and median "
        "TPOT for each further token) over their service latency",
    ),
    Metric(
        "mean_batch",
        "rows",
        "neither",
        1,
        False,
        "mean over answers of the mean batch that each was decoded in",
    ),
    Metric(
        "queued_mean_batch",
        "rows",
        "neither",
        1,
        False,
        "the same, each answer weighted by its time in the queues: how full batches were while some waited",
    ),
    Metric(
        "queued_behind_share",
        "share",
        "neither",
        1,
        False,
        "of the time in the inference queue: the part in which the server was executing other requests, whose "
        "answers succeeded",
    ),
    Metric(
        "server_queue_share",
        "share",
        "lower",
        1,
        False,
        "growth of the server's own counter of time in queues over that of time in all, of requests that ended "
        "between readings",
    ),
    Metric(
        "kv_cache_share", "share", "neither", 1, False, "highest use of the server's KV cache that was read"
    ),
    Metric(
        "preemptions",
        "requests",
        "lower",
        1,
        False,
        "growth of the server's own counter of preempted requests",
    ),
    Metric(
        "engine_active_share",
        "share",
        "neither",
        1,
        False,
        "growth of the server's own counter of time within its steps, over the time between readings",
    ),
    Metric(
        "engine_kernel_share",
        "share",
        "neither",
        1,
        False,
        "growth of the server's own counter of computing time within its steps, over the time between readings; "
        "on a CPU, CPU time of the forward passes",
    ),
    Metric(
        "engine_cpu_wait_share",
        "share",
        "lower",
        1,
        False,
        "growth of the server's own counter of time within its steps in which other programs had its CPU, over the "
        "time between readings",
    ),
    Metric(
        "useful_row_share",
        "share",
        "higher",
        1,
        False,
        "growth of the server's own counter of rows whose token somebody waited for, over that of all rows that "
        "its steps computed",
    ),
    Metric(
        "gpu_active_share",
        "share",
        "neither",
        1,
        False,
        "time with any kernel on the device, as panels show it; mean of readings, then of devices",
    ),
    Metric(
        "gpu_sm_active_share",
        "share",
        "neither",
        1,
        False,
        "time of the multiprocessors with work, over all of them; mean of readings, then of devices",
    ),
    Metric(
        "gpu_memory_share",
        "share",
        "neither",
        1,
        False,
        "used memory over total; mean of readings, then of devices",
    ),
    Metric(
        "host_cpu_share",
        "share",
        "neither",
        1,
        False,
        "CPU of the machine that sends, over all of its cores",
    ),
    Metric(
        "recovery_s",
        "s",
        "lower",
        1,
        False,
        "from an injected window's end until the rolling p99 latency is within 10 % of the baseline before it; "
        "overall the longest",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}
