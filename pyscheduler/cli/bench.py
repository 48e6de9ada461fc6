"""`pyscheduler bench`: measure the scheduler, beside the real kube-scheduler or alone. Lives in the source checkout."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from pyscheduler.cli.problems import CommandProblem

app = typer.Typer(
    help="Measure the scheduler. Works in a checkout of the source, after `make check` or `make test` has set it up.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_CHECKOUT = Path(__file__).parents[2]

Names = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A test case (SchedulingBasic), one of its sizes (SchedulingBasic/500Nodes), or a pattern with *."
        " May be given several times.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        metavar="L", help="Only workloads with this label: short, performance, large, start. May be repeated."
    ),
]


def _module(name: str) -> Any:
    """A module of bench/, which is not installed."""
    if not (_CHECKOUT / "bench" / "suite.py").is_file():
        raise CommandProblem(
            "bench works in a checkout of the source only: git clone, make test, .venv/bin/pyscheduler bench"
        )
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    try:
        return importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as missing:
        raise CommandProblem(f"bench needs {missing.name}: run `make test` once, which installs it") from None


@app.command("compare")
def compare(
    workload: Names = None,
    label: Labels = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in each of which every contender has its turn.")] = 3,
    contenders: Annotated[
        str,
        typer.Option(
            help="Who takes part, by commas; the others are compared with the first."
            " bare-client and bare-client-events bind without deciding; they take part in SchedulingBasic only."
        ),
    ] = "pyscheduler,kube-scheduler",
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER", help="Another size than the workload's: measurePods=2000. May be repeated."
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write figures and turns there as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables there.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Patience with one turn.")] = 120.0,
) -> None:
    """Run workloads with the real kube-scheduler and with this one, turn by turn on one real API server.

    Without --workload and --label: everything labelled short. The first time it builds Kubernetes, which needs Go.
    """
    suite, comparison = _module("suite"), _module("compare")
    try:
        labels = label or ([] if workload else ["short"])
        cases = comparison.with_params(suite.select(suite.load(), workload or [], labels), _params(param or []))
        plan = comparison.Plan(comparison.chosen(contenders), cases, rounds, seconds)
        finished = comparison.run(plan, comparison.Output(json, markdown))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    raise typer.Exit(0 if finished else 1)


@app.command("list")
def list_workloads(workload: Names = None, label: Labels = None) -> None:
    """Show the workloads: what is there before, what is measured, what is aimed at."""
    suite, listing = _module("suite"), _module("listing")
    try:
        shown = listing.table(suite.select(suite.load(), workload or [], label or []))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


@app.command(
    "decide",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def decide(context: typer.Context) -> None:
    """Measure decisions alone, in process and without an API server; `decide --help` has its options."""
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    command.command()(_module("decide").main)
    command(args=context.args, prog_name=context.command_path)


def _params(given: list[str]) -> dict[str, int]:
    """NAME=NUMBER each. Raises BadParameter."""
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not name or not number.isdecimal():
            raise typer.BadParameter(f"{each} is not NAME=NUMBER", param_hint="--param")
        found[name] = int(number)
    return found
