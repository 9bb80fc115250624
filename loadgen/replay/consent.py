"""Consent: whether a plan may go to a host without being asked twice."""

from __future__ import annotations

import ipaddress

from loadgen.errors import UsageError

# Below, a mistaken address costs somebody little.
MOST_UNASKED_PER_S = 50


def refuse_without_consent(host: str, address: str, highest_1s: int, *, is_own_socket: bool = False) -> None:
    """Raise UsageError where more than MOST_UNASKED_PER_S go to a host that is neither loopback nor private.

    host: as given. address: numeric, as resolved; a name where only a proxy resolves it, which counts as public.
    """
    if highest_1s > MOST_UNASKED_PER_S and not is_own_socket and is_public(address):
        raise UsageError(
            f"the plan sends up to {highest_1s} requests a second to {host}, "
            "which is neither this machine nor a private address",
            hint="give --yes if you may load it like that; --scale-rate and --speedup make it less",
        )


def is_public(address: str) -> bool:
    """Whether an address may be somebody else's: not loopback, private, shared (100.64.0.0/10) or link-local."""
    try:
        # A zone (fe80::1%eth0) is no part of what is asked here.
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_global
