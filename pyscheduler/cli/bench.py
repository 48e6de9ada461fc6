"""`pyscheduler bench`: measure a plugin, or the scheduler alone or against the real kube-scheduler.

Except for `bench plugin`, the benchmarks need a source checkout.
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

from pyscheduler.cli.options import FILE, WRITABLE, FiniteRange, IntegerRange
from pyscheduler.cli.problems import CommandProblem, unreadable
from pyscheduler.cli.sections import FullHelpGroup, SectionedCommand, option

_CHECKOUT = Path(__file__).parents[2]
_WORKLOADS, _RUNS, _RESULTS = "Workloads", "Runs", "Results"

_names = option(
    "--workload",
    section=_WORKLOADS,
    multiple=True,
    metavar="NAME",
    help="Test case (SchedulingBasic), one of its sizes (SchedulingBasic/500Nodes), or a pattern with *."
    " May be repeated.",
)
_labels = option(
    "--label",
    section=_WORKLOADS,
    multiple=True,
    metavar="L",
    help="Only workloads with this label: short, performance, large, start, latency. May be repeated.",
)


@click.group(cls=FullHelpGroup, context_settings={"show_default": True})
def bench() -> None:
    """Measure a plugin or, in a source checkout after `make test`, the scheduler.

    \b
    Measure a plugin of yours, in a second and without a cluster:
      pyscheduler bench plugin gpu_model:GpuModel

    \b
    In a checkout, measure decisions alone, and the scheduler beside kube-scheduler:
      pyscheduler bench decide
      pyscheduler bench compare --workload SchedulingBasic/500Nodes --rounds 1
    """


def _module(name: str) -> Any:
    """Import a module of bench/, which is not installed. CommandProblem outside of a checkout."""
    if not (_CHECKOUT / "bench" / "suite.py").is_file():
        raise CommandProblem("bench works in a source checkout only: git clone, make test, .venv/bin/pyscheduler bench")
    if str(_CHECKOUT) not in sys.path:
        sys.path.insert(0, str(_CHECKOUT))
    try:
        return importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as missing:
        raise CommandProblem(f"bench needs {missing.name}: install it with `make test`") from None


@bench.command(cls=SectionedCommand)
@_names
@_labels
@option(
    "--rounds",
    section=_RUNS,
    type=IntegerRange(min=1),
    default=3,
    help="Number of rounds; each round runs every contender once.",
)
@option(
    "--contenders",
    section=_RUNS,
    default="pyscheduler,kube-scheduler",
    help="Contenders, separated by commas; the others are compared with the first."
    " bare-client and bare-client-events bind pods without a decision, in workloads that need none;"
    " pyscheduler@FOLDER is another checkout of this scheduler.",
)
@option(
    "--param",
    section=_WORKLOADS,
    multiple=True,
    metavar="NAME=NUMBER",
    help="Override a size of the workload: measurePods=2000. May be repeated.",
)
@option(
    "--latency",
    section=_RUNS,
    metavar="MS,...",
    help="Delay every API call by this many milliseconds through a proxy; with a list (5,20,50,100) run once for each."
    " Default workloads: all labelled latency.",
)
@option("--json", section=_RESULTS, type=WRITABLE, metavar="FILE", help="Write the results to FILE as JSON.")
@option("--markdown", section=_RESULTS, type=WRITABLE, metavar="FILE", help="Write the tables to FILE.")
@option("--svg", section=_RESULTS, type=WRITABLE, metavar="FILE", help="Write a plot of pods/s to FILE as SVG.")
@option(
    "--html",
    section=_RESULTS,
    type=WRITABLE,
    metavar="FILE",
    help="Write the plot with its figures to FILE as HTML.",
)
@option("--seconds", section=_RUNS, type=FiniteRange(min=1), default=120.0, help="Time limit of one run.")
def compare(
    workload: tuple[str, ...],
    label: tuple[str, ...],
    rounds: int,
    contenders: str,
    param: tuple[str, ...],
    latency: str | None,
    json: Path | None,
    markdown: Path | None,
    svg: Path | None,
    html: Path | None,
    seconds: float,
) -> None:
    """Compare this scheduler with the real kube-scheduler, in alternating runs on one real API server.

    Without --workload and --label, it runs all workloads labelled short; `bench list` shows all. The first run builds
    Kubernetes, which needs Go.

    \b
      pyscheduler bench compare --workload SchedulingBasic/500Nodes --rounds 1
      pyscheduler bench compare --label performance --rounds 5 --markdown results.md
    """
    suite, comparison = _module("suite"), _module("compare")
    try:
        latencies = _milliseconds(latency)
        labels = label or (() if workload else ("latency" if any(latencies) else "short",))
        cases = comparison.with_params(suite.select(suite.load(), workload, labels), _params(param))
        cases = comparison.at_latencies(cases, latencies)
        plan = comparison.Plan(comparison.chosen(contenders), cases, rounds, seconds)
        finished = comparison.run(plan, comparison.Output(json, markdown, svg, html))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    sys.exit(0 if finished else 1)


@bench.command("list")
@_names
@_labels
def list_workloads(workload: tuple[str, ...], label: tuple[str, ...]) -> None:
    """List the workloads with their initial cluster, measured pods and target."""
    suite, listing = _module("suite"), _module("listing")
    try:
        shown = listing.table(suite.select(suite.load(), workload, label))
    except suite.SuiteError as problem:
        raise CommandProblem(str(problem)) from None
    Console(width=None if sys.stdout.isatty() else 160).print(shown)


_PLUGIN_HELP = """Measure the cost of PLUGIN: each extension point, and a whole decision with and without it.

PLUGIN is a name (GpuModel) or an import path (module:Class, also from the current directory). Times are CPU time in
microseconds. No checkout and no API server is needed.

\b
The table shows the call for one node or pod, and both forms for all nodes. "not written" means that the plain
form runs for each node: if that takes longer than a decision without the plugin, write filter_all or score_all.
The line below compares decisions for equal pods, one after the other, which reuse cached results. A difference of
a few microseconds is noise; a larger one below 0 means that the plugin rejects nodes, which then need no scores.
If `reads` claims more than the pod of --pod needs, a line shows the smaller claim and what it would save.
Extension points that are no part of a decision, such as queueSort, podGroup, quota and bind, are not measured.

\b
  pyscheduler bench plugin gpu_model:GpuModel --nodes 5000
  pyscheduler bench plugin licence:Licence --pod pod.yaml --args '{"waitSeconds": 20}'
"""


@bench.command("plugin", help=_PLUGIN_HELP)
@click.argument("plugin")
@click.option("--nodes", type=IntegerRange(min=2), default=2000, help="Number of nodes.")
@click.option("--args", "arguments", metavar="JSON", default="{}", show_default=False, help="Args of the plugin.")
@click.option("--pod", type=FILE, metavar="FILE", help="Manifest of the pods to schedule (default: an empty pod).")
@click.option("--node", type=FILE, metavar="FILE", help="Manifest of the nodes; name, hostname and zone are added.")
def plugin_cost(plugin: str, nodes: int, arguments: str, pod: Path | None, node: Path | None) -> None:
    from pyscheduler.cli import plugin_cost as measuring

    request = measuring.CostMeasurement(
        plugin, _mapping(arguments, "--args"), nodes, _manifest(pod, "Pod"), _manifest(node, "Node")
    )
    cost = measuring.measure(request)
    Console(width=None if sys.stdout.isatty() else 120).print(measuring.table(cost, nodes))
    for line in measuring.summary(cost, nodes):
        click.echo(line)


def _manifest(file: Path | None, kind: str) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        manifest = _mapping(file.read_text(encoding="utf-8"), str(file))
    except (OSError, UnicodeError) as error:
        raise unreadable(file, error) from None
    if manifest.get("kind", kind) != kind:
        raise click.UsageError(f"{file}: kind must be {kind}, not {manifest['kind']}")
    return manifest


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise CommandProblem(f"{place}: not valid YAML: {getattr(problem, 'problem', None) or problem}") from None
    if not isinstance(value, dict):
        raise CommandProblem(f"{where} is not a mapping: write {{name: value}}")
    return value


def _checkout_command(name: str, what: str) -> None:
    """Add a command that passes its options on to a module of the checkout."""

    @bench.command(
        name,
        help=f"{what}. See `{name} --help` for options.",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    @click.pass_context
    def run(context: click.Context) -> None:
        _module(name).main(args=context.args, prog_name=context.command_path)


_checkout_command("decide", "Measure decisions only, in process and without an API server")
_checkout_command("longest", "Measure the longest call on the scheduler's thread, with many nodes and waiting pods")
_checkout_command("idle", "Measure the cost of unschedulable pods while they wait")


def _milliseconds(text: str | None) -> list[int]:
    """Parse comma-separated milliseconds; [0] for None. BadParameter."""
    numbers = ["0"] if text is None else [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise click.BadParameter(f"{text} is not a list of milliseconds such as 5,20,50", param_hint="--latency")
    return [int(number) for number in numbers]


def _params(texts: Iterable[str]) -> dict[str, int]:
    """Parse NAME=NUMBER texts. BadParameter."""
    params = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise click.BadParameter(f"{text} is not NAME=NUMBER", param_hint="--param")
        params[name] = int(number)
    return params
