"""Which wrappers there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.errors import UsageError
from loadgen.record.wrappers.cri import CriWrapper
from loadgen.record.wrappers.docker import DockerWrapper
from loadgen.record.wrappers.documents import ArrayWrapper, CloudwatchWrapper, LokiWrapper
from loadgen.record.wrappers.journald import JournaldWrapper
from loadgen.record.wrappers.logcli import LogcliWrapper
from loadgen.record.wrappers.nesting import NestedWrapper, unwrapped_head
from loadgen.record.wrappers.stamped import StampedWrapper
from loadgen.record.wrappers.syslog import SyslogWrapper
from loadgen.record.wrappers.wrapper import Wrapper

# In the order in which `auto` tries them: the more particular first.
WRAPPERS: Mapping[str, Wrapper] = {
    "cloudwatch": CloudwatchWrapper,
    "loki": LokiWrapper,
    "logcli": LogcliWrapper,
    "array": ArrayWrapper,
    "docker": DockerWrapper,
    "cri": CriWrapper,
    "journald": JournaldWrapper,
    "syslog": SyslogWrapper,
    "stamped": StampedWrapper,
}
# Documents wrap a whole file, so they can stand outermost only.
_DOCUMENTS = ("cloudwatch", "loki", "array")
_MOST_NESTED = 4


def find_wrapper(name: str, head: Sequence[bytes]) -> tuple[str, Wrapper] | None:
    """What to take off, with its name; None for "none", or where "auto" finds nothing that `head` looks like.

    name: wrappers by name, the outermost first (`cri,syslog`); "auto" looks for each within the one before.
    Raises UsageError for a name that there is not.
    """
    if name == "none":
        return None
    names = _recognised(head) if name == "auto" else [part.strip() for part in name.split(",")]
    for one in names:
        if one not in WRAPPERS:
            raise UsageError(
                f"--wrapper is {name!r}",
                hint=f"give auto, none, or some of {', '.join(WRAPPERS)}: cri,syslog is syslog within CRI",
            )
    return (",".join(names), NestedWrapper([WRAPPERS[one] for one in names])) if names else None


def _recognised(head: Sequence[bytes]) -> list[str]:
    names: list[str] = []
    while len(names) < _MOST_NESTED:
        found = next(
            (
                name
                for name, wrapper in WRAPPERS.items()
                if wrapper.looks_like(head) and not (names and name in _DOCUMENTS)
            ),
            None,
        )
        if found is None:
            break
        names.append(found)
        head = unwrapped_head(WRAPPERS[found], head)
    return names
