"""`pyscheduler simulate`: hours of a cluster in seconds, for one or several configurations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from pyscheduler.cli import options, simulation_html, simulation_view
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.progress_bar import ProgressBar
from pyscheduler.cli.scenario_file import read_scenario
from pyscheduler.cli.sections import SectionedCommand, option
from pyscheduler.cli.task_view import duration
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.simulator.report import SimulationResult
from pyscheduler.simulator.scenario import Scenario, SimulationProblem
from pyscheduler.simulator.simulation import Simulation

_OUTPUT: Final = "Output"
_HELP: Final = """Simulate hours of a cluster in seconds: which jobs start when, and why others wait.

SCENARIO is a YAML file with nodes, and with workloads that arrive over time and run for given times. The scheduler's
own code schedules their pods in virtual time; nothing else is needed. docs/simulate.md describes the file.

\b
Try it: two teams, jobs that need all their pods, with and without queues and groups:
  cd "$(pyscheduler manifests config)"
  pyscheduler simulate scenarios/two-teams.yaml --config default.yaml --config batch.yaml

\b
A page with diagrams, and every job as JSON:
  pyscheduler simulate scenario.yaml --config batch.yaml -o html > report.html
  pyscheduler simulate scenario.yaml -o json | jq '.results[0].jobs[] | select(.waited > 600)'

\b
Simulate new work on a real cluster; list dump.yaml under `files:`
  kubectl get nodes,pods,priorityclasses,pdb -A -o yaml > dump.yaml
"""


@click.command(cls=SectionedCommand, context_settings={"show_default": True}, help=_HELP)
@click.argument("scenario", metavar="SCENARIO", type=options.FILE)
@option(
    "--config",
    "configs",
    section=options.CONFIGURATION,
    type=options.FILE,
    multiple=True,
    metavar="FILE",
    help="KubeSchedulerConfiguration file (default: the default profile). May be repeated, to compare.",
)
@options.feature_gates
@option(
    "-o",
    "--output",
    section=_OUTPUT,
    type=click.Choice(("table", "json", "html")),
    default="table",
    help="Format of the report.",
)
def simulate(scenario: Path, configs: tuple[Path, ...], feature_gates: tuple[str, ...], output: str) -> None:
    options.logging("text", 0, quiet=True)
    gates = options.gates(feature_gates)
    loaded = [options.loaded(config, gates) for config in configs or (None,)]
    names = [str(config) for config in configs] or ["default profile"]
    for name, config in zip(names, loaded, strict=True):
        if config.configuration.extenders:
            raise CommandProblem(f"{name}: extenders: cannot be simulated, because they are other programs")
    results = _play_all(read_scenario(scenario), names, loaded)
    write = {
        "table": simulation_view.print_tables,
        "json": simulation_view.print_json,
        "html": simulation_html.print_html,
    }
    write[output](results)


def _play_all(scenario: Scenario, names: Sequence[str], configs: Sequence[LoadedConfig]) -> list[SimulationResult]:
    results = []
    with ProgressBar("simulate", lines=False, stream=sys.stderr) as bar:
        for name, config in zip(names, configs, strict=True):

            def show(at: float, arrived: int, name: str = name) -> None:
                bar.show(f"{Path(name).name} at {duration(at)}", arrived, len(scenario.arrivals))

            try:
                results.append(Simulation(config, scenario, show).play(name))
            except SimulationProblem as problem:
                raise CommandProblem(str(problem)) from None
    return results
