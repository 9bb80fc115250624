"""Meters: what /metrics tells, in Prometheus text; vLLM's names where they exist, own names beside them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from loadgen_target.exchange import Exchange
from loadgen_target.request import Outcome, Status
from loadgen_target.worker import Facts

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_TOKEN_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

# Metric name, and the two stages it lies between.
_SPANS = (
    ("vllm:time_to_first_token_seconds", "recv", "first_token", "From receipt to the first token"),
    ("vllm:e2e_request_latency_seconds", "recv", "finished", "From receipt to the end of the answer"),
    ("vllm:request_queue_time_seconds", "enqueued", "exec_start", "In the engine's queue"),
    ("vllm:request_prefill_time_seconds", "exec_start", "prefill_end", "Reading the prompt"),
    ("vllm:request_inference_time_seconds", "exec_start", "last_token", "In execution"),
    ("vllm:request_decode_time_seconds", "first_token", "last_token", "From the first to the last token"),
    ("loadgen_target:preprocess_seconds", "parsed", "pre_end", "Waiting for and doing the preprocessing"),
)


class Meters:
    """Counters and histograms of one server, in a registry of its own; every series has the model's name."""

    def __init__(self, model_name: str, num_slots: int, kv_capacity: int) -> None:
        self.registry = CollectorRegistry()
        self._model_name = model_name
        self._num_slots = num_slots
        self._kv_capacity = kv_capacity
        self._running = self._gauge("vllm:num_requests_running", "Requests in execution")
        self._waiting = self._gauge("vllm:num_requests_waiting", "Requests received and not yet in execution")
        self._kv_usage = self._gauge("vllm:kv_cache_usage_perc", "Cache positions in use, 1 is all")
        self._pre_waiting = self._gauge(
            "loadgen_target:num_preprocess_waiting", "Requests in or before preprocessing"
        )
        self._prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens of requests that ended well")
        self._output_tokens = self._counter("vllm:generation_tokens", "Tokens generated")
        self._success = Counter(
            "vllm:request_success",
            "Requests that ended well",
            ["model_name", "finished_reason"],
            registry=self.registry,
        )
        self._spans = [
            (self._histogram(name, help_text, _SECONDS), start, end) for name, start, end, help_text in _SPANS
        ]
        self._token_s = self._histogram(
            "vllm:request_time_per_output_token_seconds",
            "Mean time between two tokens of a request",
            _TOKEN_S,
        )
        self._step_tokens = self._histogram(
            "vllm:iteration_tokens_total", "Tokens computed in a step", _TOKENS
        )
        self._batch = self._histogram("loadgen_target:batch_size", "Rows of a decode step", _BATCHES)
        self._rows = self._counter("loadgen_target:rows", "Rows computed")
        self._useful = self._counter("loadgen_target:useful_rows", "Rows whose token somebody waited for")
        self._busy_s = self._counter("loadgen_target:step_busy_seconds", "Wall time inside steps")
        self._active_s = self._counter(
            "loadgen_target:active_seconds", "Time with work on the device; on a CPU the time inside steps"
        )
        # A time that nobody knows has no series: 0 would be an answer.
        self._kernel_s: Counter | None = None
        self._cpu_wait_s: Counter | None = None
        self._decode_bytes: Counter | None = None
        self._decode_s = self._counter("loadgen_target:decode_seconds", "Active time of decode steps")
        self._weight_bytes = self._kv_token_bytes = 0
        self._restarts = self._counter(
            "loadgen_target:engine_restarts", "Engines started after one that died"
        )
        self._unhappy = {
            Status.REJECTED: self._counter("loadgen_target:rejected", "Requests refused at receipt"),
            Status.TIMEOUT: self._counter("loadgen_target:timed_out", "Requests that ran out of time"),
            Status.CANCELLED: self._counter("loadgen_target:cancelled", "Requests whose client went away"),
            Status.INVALID: self._counter("loadgen_target:invalid", "Requests that were wrong"),
            Status.ERROR: self._counter("loadgen_target:errors", "Requests that this server failed"),
        }

    def know_device(self, facts: Facts) -> None:
        """Begin the series that depend on what the engine told of its device; called again for a new engine."""
        if facts.get("kernel_time_reason") is None and self._kernel_s is None:
            self._kernel_s = self._counter(
                "loadgen_target:kernel_seconds",
                "CPU time inside forward passes; below busy time: others had the cores. On a GPU, an "
                "estimate of the kernels' own time",
            )
        bandwidth = facts.get("read_bandwidth_bytes_per_s")
        if bandwidth is not None and self._decode_bytes is None:
            self._weight_bytes = int(facts["weight_bytes"] or 0)
            self._kv_token_bytes = int(facts["kv_token_bytes"] or 0)
            self._decode_bytes = self._counter(
                "loadgen_target:decode_bytes", "Bytes that decode steps must read: weights and cache"
            )
            limit = self._gauge(
                "loadgen_target:read_bandwidth_bytes_per_second", "Measured when the engine started"
            )
            limit.set(float(bandwidth))

    def count_restart(self) -> None:
        """A new engine takes the place of one that died; nothing runs in it yet."""
        self._restarts.inc()
        self._running.set(0)
        self._kv_usage.set(0)

    def count_step(self, outcome: Outcome) -> None:
        """Take a step into account."""
        self._running.set(outcome.num_running)
        self._kv_usage.set(outcome.kv_tokens / self._kv_capacity)
        self._output_tokens.inc(sum(len(emission.tokens) for emission in outcome.emissions))
        record = outcome.record
        if record is not None:
            self._rows.inc(record.rows)
            self._useful.inc(record.useful_rows)
            self._busy_s.inc((record.end_ns - record.start_ns) * 1e-9)
            self._active_s.inc(record.active_ns * 1e-9)
            self._step_tokens.observe(record.new_tokens)
            if self._kernel_s is not None and record.kernel_ns is not None:
                self._kernel_s.inc(record.kernel_ns * 1e-9)
            if record.cpu_wait_ns is not None:
                self._count_cpu_wait(record.cpu_wait_ns)
            if record.kind == "decode":
                self._batch.observe(record.rows)
                self._decode_s.inc(record.active_ns * 1e-9)
                if self._decode_bytes is not None:
                    self._decode_bytes.inc(self._weight_bytes + record.kv_tokens * self._kv_token_bytes)

    def _count_cpu_wait(self, waited_ns: int) -> None:
        if self._cpu_wait_s is None:
            self._cpu_wait_s = self._counter(
                "loadgen_target:cpu_wait_seconds", "Time inside steps while other programs had the CPU"
            )
        self._cpu_wait_s.inc(waited_ns * 1e-9)

    def count_end(self, exchange: Exchange) -> None:
        """Take the end of a request into account; latencies only of those that ended well."""
        if exchange.status is not Status.OK:
            assert exchange.status is not None
            self._unhappy[exchange.status].inc()
            return
        assert exchange.asked is not None and exchange.ended is not None
        self._prompt_tokens.inc(exchange.asked.num_prompt_tokens)
        self._success.labels(self._model_name, exchange.ended.finish_reason).inc()
        for histogram, start, end in self._spans:
            span_s = exchange.span_s(start, end)
            if span_s is not None:
                histogram.observe(span_s)
        decode_s = exchange.span_s("first_token", "last_token")
        if decode_s is not None and exchange.output_tokens > 1:
            self._token_s.observe(decode_s / (exchange.output_tokens - 1))

    def exposition(self, *, num_waiting: int, num_preprocess_waiting: int) -> bytes:
        """The text of /metrics."""
        self._waiting.set(num_waiting)
        self._pre_waiting.set(num_preprocess_waiting)
        return generate_latest(self.registry)

    def _gauge(self, name: str, help_text: str) -> Gauge:
        return Gauge(name, help_text, ["model_name"], registry=self.registry).labels(self._model_name)

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(name, help_text, ["model_name"], registry=self.registry).labels(self._model_name)

    def _histogram(self, name: str, help_text: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(name, help_text, ["model_name"], registry=self.registry, buckets=buckets)
        return metric.labels(self._model_name)
