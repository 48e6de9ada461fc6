"""Options and output of `pyscheduler bench decide`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.decide import comparison
from bench.decide.cluster import Size
from bench.decide.measurement import measure_in_new_process
from bench.decide.plots import figure_plot, ratio_plot
from bench.decide.results import Results, scenario_table, table
from bench.decide.scenarios import SCENARIOS
from bench.pod_features import POD_SPECS
from pyscheduler.cli.options import WRITABLE


@click.command(context_settings={"show_default": True})
@click.option(
    "--scenario",
    "names",
    metavar="NAME,...",
    help="Scenarios, comma-separated, or all; see --list. By default all kinds of pod specs.",
)
@click.option("--pod-specs", "kinds", default=",".join(POD_SPECS), help="Kinds of pod specs, comma-separated.")
@click.option("--list", "listed", is_flag=True, help="List the scenarios and exit.")
@click.option(
    "--nodes", multiple=True, default=["5000"], metavar="N,...", help="Nodes of the cluster; several for a curve."
)
@click.option("--per-node", type=click.IntRange(min=0), default=2, help="Pods already running on each node.")
@click.option("--pods", type=click.IntRange(min=1), default=400, help="Pods per round.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Rounds; the median of their means is reported.")
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Factor on the numbers of templates, ReplicaSets, apps and waiting pods.",
)
@click.option(
    "--churn",
    type=click.Choice(["none", "node"]),
    default="none",
    help="Change a node before each attempt of the kinds of pod specs; its event is measured too.",
)
@click.option("--json", "file", type=WRITABLE, metavar="FILE", help="Write the figures to FILE.")
@click.option("--svg", type=WRITABLE, metavar="FILE", help="Write a plot of the table to FILE as SVG.")
@click.option("--html", type=WRITABLE, metavar="FILE", help="Write the plot with its figures to FILE as HTML.")
@click.option(
    "--compare",
    "base",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Run this checkout and the one in FOLDER in turn and print the ratios.",
)
@click.option("--skip-unknown", is_flag=True, hidden=True, help="Report unknown scenarios as failed instead.")
@click.option("--turns", type=click.IntRange(min=1), default=3, help="Turns of each checkout with --compare.")
def main(  # noqa: PLR0913 -- the options of a command are its parameters
    names: str | None,
    kinds: str,
    listed: bool,
    nodes: tuple[str, ...],
    per_node: int,
    pods: int,
    rounds: int,
    scale: float,
    churn: str,
    file: Path | None,
    svg: Path | None,
    html: Path | None,
    base: Path | None,
    skip_unknown: bool,
    turns: int,
) -> None:
    """Measure the CPU time of scheduling decisions, on one core and without an API server.

    \b
      pyscheduler bench decide --list
      pyscheduler bench decide --scenario full-cluster,preemption --nodes 5000,50000
      pyscheduler bench decide --scenario templates --compare ../base
    """
    console = Console(width=None if sys.stdout.isatty() else 160)
    if listed:
        console.print(scenario_table(list(SCENARIOS.values())))
        return
    if names is None:
        chosen = chosen_names(kinds, POD_SPECS, "--pod-specs")
    else:
        chosen = names.split(",") if skip_unknown else chosen_names(names, SCENARIOS, "--scenario")
    sizes = [Size(count, per_node, pods, rounds, scale, churn == "node") for count in node_counts(nodes)]
    if base is not None:
        found = _compare(console, base, chosen, sizes, turns)
        ratio_plot(found).write(svg, html)
        sys.exit(1 if not found or any(row.is_slower for row in found) else 0)
    results = _measure_all(chosen, sizes)
    console.print(table(results.figures))
    figure_plot(results.figures).write(svg, html)
    if file is not None:
        results.write(file)
    sys.exit(1 if results.failed else 0)


def _measure_all(names: Sequence[str], sizes: Sequence[Size]) -> Results:
    """Measure each scenario in a process of its own; one that fails does not end the others."""
    results = Results([], {})
    for name in names:
        for size in sizes:
            try:
                results.figures.extend(measure_in_new_process(name, size))
            except Exception as error:
                results.failed[name] = f"{type(error).__name__}: {error}"
                click.echo(f"{name}, {size.nodes:,} nodes: {results.failed[name]}", err=True)
    return results


def _compare(
    console: Console, base: Path, names: Sequence[str], sizes: Sequence[Size], turns: int
) -> list[comparison.Ratio]:
    """Print the ratios and return them."""
    first = sizes[0]
    options = ["--scenario", ",".join(names), "--nodes", ",".join(str(size.nodes) for size in sizes)]
    options += ["--per-node", str(first.per_node), "--pods", str(first.pods)]
    options += ["--rounds", str(first.rounds), "--scale", str(first.scale)]
    options += ["--churn", "node" if first.churn else "none"]
    measured = comparison.compare(base.absolute(), options, turns)
    found = comparison.ratios(measured)
    console.print(comparison.ratio_table(found))
    for name, error in comparison.left_out(measured).items():
        click.echo(f"{name} is left out: {error}", err=True)
    return found


def chosen_names(text: str, known: Iterable[str], option: str) -> list[str]:
    """Return the names in a comma-separated text. BadParameter for an unknown one."""
    known = list(known)
    if text == "all":
        return known
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.BadParameter(f"there is no {unknown[0]}; use {', '.join(known)}", param_hint=option)
    return names


def node_counts(texts: Sequence[str]) -> list[int]:
    """Return the node counts in ascending order. BadParameter."""
    numbers = [number.strip() for text in texts for number in text.split(",")]
    if not all(number.isdecimal() and int(number) for number in numbers):
        raise click.BadParameter(
            f"{', '.join(texts)} is not a list of numbers such as 5000,50000", param_hint="--nodes"
        )
    return sorted(set(map(int, numbers)))
