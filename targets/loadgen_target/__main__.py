"""`python -m loadgen_target FLAGS`: start the server; `loadgen serve FLAGS` is the same."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from loadgen_target.config import ConfigError
from loadgen_target.flags import parse_flags

_SWITCH_INTERVAL_S = 0.0005


def main() -> int:
    """Run the server; a ConfigError becomes one line, its hint, and exit code 2."""
    try:
        config = parse_flags(sys.argv[1:])
        # Here, so that --help and a wrong flag do not wait for it.
        from loadgen_target.server import serve  # noqa: PLC0415

        # A preprocessing thread that is due must not wait 5 ms for a busy event loop.
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serve(config))
    except ConfigError as error:
        hint = f" ({error.hint})" if error.hint else ""
        sys.stderr.write(f"loadgen-target: {error.message}{hint}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
