"""The `loadgen` command: its verbs, and how errors become one line and an exit code."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import FrameType
from typing import Any

import typer

import loadgen
from loadgen.cli import console
from loadgen.errors import ExitCode, LoadgenError


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: where its function (or its group of verbs) is, and how the command line shows it.

    Loaded only when it is asked for: what one verb needs, another need not wait for.
    """

    place: str
    epilog: str | None = None
    command_class: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, app: typer.Typer, name: str) -> None:
        """Register the verb."""
        module = import_module(self.place)
        command = getattr(module, name, None)
        if command is None:
            app.add_typer(getattr(module, f"{name}_app"), name=name)
            return
        settings = dict(self.settings)
        if self.command_class is not None:
            settings["cls"] = getattr(module, self.command_class)
        app.command(name, epilog=self.epilog, **settings)(command)


VERBS: Mapping[str, Verb] = {
    "record": Verb("loadgen.cli.record"),
    "trace": Verb("loadgen.cli.trace"),
    "plan": Verb(
        "loadgen.cli.plan",
        "Examples: loadgen plan production.parquet --busiest 5m --inject-peak   |   "
        "loadgen plan production.parquet --speedup 2 --inject-burst 50 --burst-every 10s   |   "
        "loadgen plan gpu.parquet --scale-input 0.01 --max-input 32 --scale-output 0.5 --max-output 64",
    ),
    "replay": Verb(
        "loadgen.cli.replay",
        "Examples: loadgen replay production.parquet --url http://staging:8000 --busiest 5m --inject-peak   |   "
        "loadgen replay production.parquet --serve '--policy continuous' --chars-per-token 1 --ignore-eos",
    ),
    "simulate": Verb(
        "loadgen.cli.simulate",
        "Examples: loadgen simulate production.parquet --policy dynamic --max-batch-size 8 --max-wait-ms 150   |   "
        "loadgen simulate production.parquet --policy continuous --fit steps.parquet --inject-peak",
    ),
    "report": Verb(
        "loadgen.cli.report",
        "Example: loadgen report reports/production-20261201T101500Z-4f2a9c --slo 'ttft p99 < 800ms'",
    ),
    "ab": Verb(
        "loadgen.cli.ab",
        "Examples: loadgen ab production.parquet --busiest 60s --a http://old:8000 --b http://new:8000   |   "
        "loadgen ab production.parquet --busiest 60s --a 'server-1.4 --port {port}' --b 'server-1.5 --port {port}'",
    ),
    "compare": Verb(
        "loadgen.cli.compare",
        "Examples: loadgen compare reports/a-1 reports/a-2 --to reports/b-1 reports/b-2   |   "
        "loadgen compare reports/a-1 --to reports/b-1 --fail-on 'ttft p99 > +5%'",
        command_class="ManyRunsCommand",
    ),
    "experiment": Verb(
        "loadgen.cli.experiment",
        "Examples: loadgen experiment --policies all   |   loadgen experiment bench.toml --repeats 3   |   "
        "loadgen experiment policies --simulate --trace production.parquet",
    ),
    "advise": Verb(
        "loadgen.cli.advise",
        "Examples: loadgen advise production.parquet --busiest 5m --latency-budget 800ms --fit steps.parquet   |   "
        "loadgen advise reports/production-20261201T101500Z-4f2a9c --latency-budget 800ms --verify",
    ),
    "calibrate": Verb("loadgen.cli.calibrate"),
    "serve": Verb(
        "loadgen.cli.serve",
        settings={
            "add_help_option": False,
            "context_settings": {"allow_extra_args": True, "ignore_unknown_options": True},
        },
    ),
}


def make_app(names: Iterable[str]) -> typer.Typer:
    """The command line with these verbs."""
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
    app.callback()(_options)
    for name in names:
        VERBS[name].add_to(app, name)
    return app


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"loadgen {loadgen.__version__}")
        raise typer.Exit()


def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options before the verb."""


def _terminate(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does, cleaning up; verbs that keep results have handlers of their own."""
    sys.exit(ExitCode.TERMINATED)


def main() -> None:
    """Run the command line; a LoadgenError becomes its message, its hint and its exit code, a fault of ours 5."""
    console.tolerate_narrow_encodings()
    signal.signal(signal.SIGTERM, _terminate)
    asked = sys.argv[1:2]
    try:
        make_app([name for name in VERBS if asked == [name]] or VERBS)()
    except LoadgenError as error:
        console.print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); nothing is wrong with the work.
        sys.stderr.close()
        sys.exit(ExitCode.OK)
    except Exception:
        # Python would end with 1, which tells a script that a limit failed.
        traceback.print_exc()
        console.print_error(
            LoadgenError(
                "this is a fault of loadgen itself",
                hint="please report it with the lines above and the command",
            )
        )
        sys.exit(ExitCode.RUN_FAILED)
