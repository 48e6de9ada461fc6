"""`pyscheduler bench`: measure a plugin, or the scheduler, beside the real kube-scheduler or alone.

All but the measurement of a plugin lives in the source checkout.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import yaml
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
    """Measure a plugin or, in a checkout of the source after `make test`, the scheduler."""


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


_PLUGIN_HELP = """Measure what PLUGIN costs: each extension point, and a whole decision with it and without it.

PLUGIN is a name (GpuModel) or an import path (module:Class; modules of the current directory count). Times are CPU time
in microseconds. It needs no checkout and no API server.

\b
The table shows a call for one node or pod, and both forms for all nodes. "not written" means that the plain form
runs for each node: if that takes longer than a decision without the plugin, write filter_all or score_all.
A line names a claim in `reads` that is larger than the pod of --pod needs, and what the smaller one would save.

\b
  pyscheduler bench plugin gpu_model:GpuModel --nodes 5000
  pyscheduler bench plugin licence:Licence --pod pod.yaml --args '{"waitSeconds": 20}'
"""


@bench.command("plugin", help=_PLUGIN_HELP)
@click.argument("plugin")
@click.option("--nodes", type=click.IntRange(min=2), default=2000, help="Nodes of the cluster.")
@click.option("--args", "arguments", metavar="JSON", default="{}", show_default=False, help="The plugin's args.")
@click.option("--pod", type=FILE, metavar="FILE", help="Manifest of the pods to be placed; by default, an empty one.")
@click.option("--node", type=FILE, metavar="FILE", help="Manifest of the nodes; each gets a name, hostname and zone.")
def plugin_cost(plugin: str, nodes: int, arguments: str, pod: Path | None, node: Path | None) -> None:
    from pyscheduler.cli import plugin_cost as measuring

    request = measuring.Request(plugin, _mapping(arguments, "--args"), nodes, _manifest(pod), _manifest(node))
    cost = measuring.measure(request)
    Console(width=None if sys.stdout.isatty() else 120).print(measuring.table(cost, nodes))
    for line in measuring.summary(cost, nodes):
        click.echo(line)


def _manifest(file: Path | None) -> dict[str, Any]:
    return {} if file is None else _mapping(file.read_text(encoding="utf-8"), str(file))


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        raise CommandProblem(f"{where}: {problem}") from None
    if not isinstance(value, dict):
        raise CommandProblem(f"{where} is not a mapping")
    return value


def _checkout_command(name: str, what: str) -> None:
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


_checkout_command("decide", "Measure decisions alone, in process and without an API server")
_checkout_command("longest", "Measure the longest call of the scheduler's thread, with many nodes and waiting pods")
_checkout_command("idle", "Measure what pods cost that nothing fits, while they wait")


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
