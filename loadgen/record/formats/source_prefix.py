"""What `docker compose logs` and `kubectl logs --prefix` put before each line: who wrote it."""

from __future__ import annotations

# `vllm-1  | ` and `[pod/vllm-0/vllm] `, the first perhaps in colour.
SOURCE_PREFIX = rb"(?:(?:\x1b\[[0-9;]*m)*[\w.-]+ *\|(?:\x1b\[[0-9;]*m)* |\[pod/[^\]\s]+\] )?"
