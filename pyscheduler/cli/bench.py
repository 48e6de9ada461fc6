"""`pyscheduler bench`: measure the scheduler, beside the real kube-scheduler or alone. Lives in the source checkout."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pyscheduler.cli.options import FILE
from pyscheduler.cli.problems import CommandProblem

_CHECKOUT = Path(__file__).parents[2]

_names = click.option(
    "--workload",
    multiple=True,
    metavar="NAME",
    help="A test case (SchedulingBasic), one of its sizes (SchedulingBasic/500Nodes), or a pattern with *."
    " May be given several times.",
)
_labels = click.option(
    "--label",
    multiple=True,
    metavar="L",
    help="Only workloads with this label: short, performance, large, start, latency. May be repeated.",
)


@click.group(context_settings={"show_default": True})
def bench() -> None:
    """Measure the scheduler. Works in a checkout of the source, after `make check` or `make test` has set it up."""


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


@bench.command
@_names
@_labels
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=3,
    help="Rounds, in each of which every contender has its turn.",
)
@click.option(
    "--contenders",
    default="pyscheduler,kube-scheduler",
    help="Who takes part, by commas; the others are compared with the first."
    " bare-client and bare-client-events bind without deciding; they take part where there is nothing to decide.",
)
@click.option(
    "--param",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Another size than the workload's: measurePods=2000. May be repeated.",
)
@click.option(
    "--latency",
    metavar="MS,...",
    help="Put a proxy between each contender and the API server that makes every call take so many milliseconds longer,"
    " once for each of these: 5,20,50,100. Without --workload and --label: everything labelled latency.",
)
@click.option("--json", type=FILE, metavar="FILE", help="Write figures and turns there as JSON.")
@click.option("--markdown", type=FILE, metavar="FILE", help="Write the tables there.")
@click.option("--seconds", type=click.FloatRange(min=1), default=120.0, help="Patience with one turn.")
def compare(
    workload: tuple[str, ...],
    label: tuple[str, ...],
    rounds: int,
    contenders: str,
    param: tuple[str, ...],
    latency: str | None,
    json: Path | None,
    markdown: Path | None,
    seconds: float,
) -> None:
    """Run workloads with the real kube-scheduler and with this one, turn by turn on one real API server.

    Without --workload and --label: everything labelled short. The first time it builds Kubernetes, which needs Go.
    """
    suite, comparison = _module("suite"), _module("compare")
    try:
        latencies = _milliseconds(latency)
        labels = label or (() if workload else ("latency" if any(latencies) else "short",))
        cases = comparison.with_params(suite.select(suite.load(), workload, labels), _params(param))
        cases = comparison.at_latencies(cases, latencies)
        plan = comparison.Plan(comparison.chosen(contenders), cases, rounds, seconds)
        finished = comparison.run(plan, comparison.Output(json, markdown))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    sys.exit(0 if finished else 1)


@bench.command("list")
@_names
@_labels
def list_workloads(workload: tuple[str, ...], label: tuple[str, ...]) -> None:
    """Show the workloads: what is there before, what is measured, what is aimed at."""
    suite, listing = _module("suite"), _module("listing")
    try:
        shown = listing.table(suite.select(suite.load(), workload, label))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


def _lent(name: str, what: str) -> None:
    """A command whose options are those of the module `name`, which only a checkout has."""

    @bench.command(
        name,
        help=f"{what}; `{name} --help` has its options.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    @click.pass_context
    def run(context: click.Context) -> None:
        _module(name).main(args=context.args, prog_name=context.command_path)


_lent("decide", "Measure decisions alone, in process and without an API server")
_lent("longest", "Measure the longest call of the scheduler's thread, with many nodes and waiting pods")
_lent("idle", "Measure what pods cost that nothing fits, while they wait")


def _milliseconds(given: str | None) -> list[int]:
    """Parse whole milliseconds with commas between them; [0], no latency, without any. Raises BadParameter."""
    found = ["0"] if given is None else [each.strip() for each in given.split(",")]
    if not all(each.isdecimal() for each in found):
        raise click.BadParameter(f"{given} is not a list of milliseconds such as 5,20,50", param_hint="--latency")
    return [int(each) for each in found]


def _params(given: Iterable[str]) -> dict[str, int]:
    """NAME=NUMBER each. Raises BadParameter."""
    found = {}
    for each in given:
        name, _, number = each.partition("=")
        if not name or not number.isdecimal():
            raise click.BadParameter(f"{each} is not NAME=NUMBER", param_hint="--param")
        found[name] = int(number)
    return found
