"""The `loadgen` command: its verbs, and how errors become one line and an exit code."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import typer

import loadgen
from loadgen.cli import console
from loadgen.cli.ab import ab
from loadgen.cli.compare import ManyRunsCommand, compare
from loadgen.cli.plan import plan
from loadgen.cli.record import record
from loadgen.cli.replay import replay
from loadgen.cli.report import report
from loadgen.cli.serve import serve
from loadgen.cli.trace import trace_app
from loadgen.errors import ExitCode, LoadgenError

app = typer.Typer(
    name="loadgen",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help=(
        "Replay production traffic at an inference server, and see what held.\n\n"
        "A log becomes a trace (arrival times and text lengths, no text): loadgen record. "
        "The trace is fired in open loop, with its peak doubled: loadgen replay --inject-peak. "
        "The run tells what happened and why: loadgen report."
    ),
    epilog=(
        "Exit codes: 0 fine, 1 a limit failed, 2 wrong use or bad input, 3 inconclusive, "
        "4 run invalid (the generator was the limit), 5 run failed, 130/143 interrupted (results kept)."
    ),
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"loadgen {loadgen.__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options before the verb."""


app.add_typer(trace_app, name="trace")


app.command()(record)
app.command(
    epilog=(
        "Examples: loadgen plan production.parquet --busiest 5m --inject-peak   |   "
        "loadgen plan production.parquet --speedup 2 --inject-burst 50 --burst-every 10s   |   "
        "loadgen plan gpu.parquet --scale-input 0.01 --max-input 32 --scale-output 0.5 --max-output 64"
    )
)(plan)
app.command(
    epilog=(
        "Examples: loadgen replay production.parquet --url http://staging:8000 --busiest 5m --inject-peak   |   "
        "loadgen replay production.parquet --serve '--policy continuous' --chars-per-token 1 --ignore-eos"
    )
)(replay)
app.command(
    epilog="Example: loadgen report reports/production-20261201T101500Z-4f2a9c --slo 'ttft p99 < 800ms'"
)(report)
app.command(
    epilog=(
        "Examples: loadgen ab production.parquet --busiest 60s --a http://old:8000 --b http://new:8000   |   "
        "loadgen ab production.parquet --busiest 60s --a 'server-1.4 --port {port}' --b 'server-1.5 --port {port}'"
    )
)(ab)
app.command(
    cls=ManyRunsCommand,
    epilog=(
        "Examples: loadgen compare reports/a-1 reports/a-2 --to reports/b-1 reports/b-2   |   "
        "loadgen compare reports/a-1 --to reports/b-1 --fail-on 'ttft p99 > +5%'"
    ),
)(compare)
app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(serve)


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, cleaning up; verbs that keep results have handlers of their own."""
    sys.exit(ExitCode.TERMINATED)


def main() -> None:
    """Run the command line; a LoadgenError becomes its message, its hint and its exit code."""
    console.tolerate_narrow_encodings()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except LoadgenError as error:
        console.print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); nothing is wrong with the work.
        sys.stderr.close()
        sys.exit(ExitCode.OK)
