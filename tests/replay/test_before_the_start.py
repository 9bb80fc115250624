"""What must not start is refused before the first send: public hosts unasked, more connections than descriptors."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.errors import ExitCode, GeneratorLimit, UsageError
from loadgen.replay.consent import is_public, refuse_without_consent
from loadgen.replay.descriptors import least_connections, refuse_beyond_descriptors


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "169.254.1.1", "fe80::1%eth0", "fd00::1",
     "100.64.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "0.0.0.0"],
)  # fmt: skip
def test_addresses_of_ones_own_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "172.32.0.1", "example.com", ""]
)
def test_all_others_are(address: str) -> None:
    assert is_public(address)


def test_only_much_load_at_a_public_host_needs_consent() -> None:
    refuse_without_consent("api.example.com", "8.8.8.8", 50)
    refuse_without_consent("gpu.local", "10.0.0.9", 5000)
    refuse_without_consent("localhost", "localhost", 5000, is_own_socket=True)
    with pytest.raises(UsageError, match="up to 51 requests a second to api") as refused:
        refuse_without_consent("api.example.com", "8.8.8.8", 51)
    assert "--yes" in str(refused.value.hint)


def test_what_is_sent_at_one_moment_is_open_at_one_time() -> None:
    planned_ns = np.array([0, 0, 0, 999_999, 1_000_000, 5_000_000])
    assert least_connections(planned_ns, None) == 4
    assert least_connections(planned_ns, 2) == 2


def test_more_than_the_descriptors_that_may_be_had_is_refused() -> None:
    # F61
    refuse_beyond_descriptors(192, limit=256)
    with pytest.raises(GeneratorLimit, match="needs 264 descriptors; this user may have 256") as refused:
        refuse_beyond_descriptors(200, limit=256)
    assert refused.value.exit_code is ExitCode.RUN_INVALID
