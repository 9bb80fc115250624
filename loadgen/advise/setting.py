"""Setting: a policy with its numbers, as flags of the bundled server and as other servers write them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Setting:
    """What the search varies. wait_ms: dynamic; window_ms: fixed-window; None where the policy has no such thing.

    batched_tokens: continuous, tokens of one iteration.
    """

    policy: str
    max_batch: int
    wait_ms: float | None = None
    window_ms: float | None = None
    inflight: int = 1
    batched_tokens: int | None = None
    high_water: int = 64

    @property
    def flags(self) -> str:
        """Flags of `loadgen serve`, without those of the model."""
        words = [f"--policy {self.policy}"]
        if self.policy != "serial":
            words.append(f"--max-batch-size {self.max_batch}")
        if self.wait_ms is not None:
            words.append(f"--max-wait-ms {self.wait_ms:g}")
        if self.window_ms is not None:
            words.append(f"--window-ms {self.window_ms:g}")
        if self.inflight > 1:
            words.append(f"--max-inflight-batches {self.inflight}")
        if self.batched_tokens is not None:
            words.append(f"--max-num-batched-tokens {self.batched_tokens}")
        words.append(f"--max-queue-size {self.high_water}")
        return " ".join(words)

    def with_high_water(self, limit: int) -> Setting:
        return replace(self, high_water=limit)


def candidates(
    budget_s: float, *, max_batch: int, policies: tuple[str, ...], longest_prompt: int
) -> list[Setting]:
    """What to try: every policy over the usual numbers, none of which waits longer than half of the budget.

    longest_prompt: tokens; an iteration's budget below it would change nothing but the order.
    """
    sizes = [size for size in (2, 4, 8, 16, 32, 64) if size <= max_batch] or [1]
    half_ms = budget_s * 500
    waits = [
        wait for wait in (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, 150.0, 250.0, 500.0, 1000.0) if wait <= half_ms
    ]
    windows = [window for window in (10.0, 20.0, 50.0, 100.0, 200.0, 500.0) if window <= half_ms]
    tokens = sorted({max(64, longest_prompt), 256, 512, 2048, 8192})
    found: list[Setting] = []
    if "serial" in policies:
        found.append(Setting("serial", 1))
    for size in sizes:
        if "fixed-window" in policies:
            found += [Setting("fixed-window", size, window_ms=window) for window in windows]
        if "dynamic" in policies:
            found += [
                Setting("dynamic", size, wait_ms=wait, inflight=inflight)
                for wait in waits
                for inflight in (1, 2)
            ]
        if "continuous" in policies:
            found += [
                Setting("continuous", size, batched_tokens=count)
                for count in tokens
                if count >= longest_prompt
            ]
    return found


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A setting in another server's words. how_near: exact, near, or what it lacks."""

    server: str
    text: str
    how_near: str


def elsewhere(static: Setting | None, joining: Setting | None, timeout_s: float | None) -> list[Elsewhere]:
    """The nearest settings of Triton and Ray Serve (batches as wholes) and of vLLM and TGI (requests join).

    static: the best dynamic setting; joining: the best continuous one; None where none was tried.
    """
    found: list[Elsewhere] = []
    if static is not None:
        wait_us = round((static.wait_ms or 0) * 1e3)
        timeout = "" if timeout_s is None else f" default_timeout_microseconds: {round(timeout_s * 1e6)}"
        queue = f"timeout_action: REJECT{timeout} max_queue_size: {static.high_water}"
        batcher = (
            f"max_queue_delay_microseconds: {wait_us} preferred_batch_size: [ {static.max_batch} ] "
            f"default_queue_policy {{ {queue} }}"
        )
        found.append(
            Elsewhere(
                "Triton",
                f"max_batch_size: {static.max_batch}  dynamic_batching {{ {batcher} }}  "
                f"instance_group [ {{ count: {static.inflight} }} ]",
                "instances compute side by side instead of in turn; the timeout is of the queue only",
            )
        )
        rows = static.max_batch * static.inflight
        found.append(
            Elsewhere(
                "Ray Serve",
                f"@serve.deployment(max_ongoing_requests={rows + static.high_water}, "
                f"max_queued_requests={static.high_water})  @serve.batch(max_batch_size={static.max_batch}, "
                f"batch_wait_timeout_s={wait_us / 1e6:g}, max_concurrent_batches={static.inflight})",
                "what waits for its batch counts as ongoing; batches compute side by side",
            )
        )
    if joining is not None:
        tokens = joining.batched_tokens or 512
        found.append(
            Elsewhere(
                "vLLM",
                f"--max-num-seqs {joining.max_batch} --max-num-batched-tokens {max(tokens, joining.max_batch)} "
                f"--max-num-queued-reqs {joining.max_batch + joining.high_water}",
                "its limit (vLLM 0.29 or later) counts running requests, too; long prompts are read in pieces",
            )
        )
        found.append(
            Elsewhere(
                "TGI",
                f"--max-batch-size {joining.max_batch} --max-batch-prefill-tokens {tokens} "
                f"--max-concurrent-requests {joining.max_batch + joining.high_water}",
                "its limit counts running requests, too; it may hold new ones back until enough wait "
                "(--waiting-served-ratio)",
            )
        )
    return found
