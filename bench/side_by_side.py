"""This scheduler beside the real kube-scheduler: one API server, one run, turn by turn. See bench/README.md.

Run as `python -m bench.side_by_side --nodes 5000 --pods 5000 --rounds 3`, or as `make bench`.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console

from bench import report, workload
from bench.contenders import CONTENDERS, Contender
from bench.figures import per_second
from bench.turn import Size, Turn, take_turn
from bench.watch import Unfinished
from tests.controlplane.arguments import Options
from tests.controlplane.build import BuildError, kubernetes_version
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.nodes import create_nodes
from tests.controlplane.process import ProcessFailed
from tests.e2e.scheduler import install

WARM_UP_PODS = 200
_OPTIONS = Options(  # what is there beside the API server is there to be scheduled, not to take part
    controllers="serviceaccount-controller",
    taint_new_nodes=False,
    max_requests_inflight=3000,
    max_mutating_requests_inflight=1500,
    extra={"kube-apiserver": ("--delete-collection-workers=8",)},
)


@dataclass(frozen=True)
class Plan:
    """Who runs, on how much, how often."""

    contenders: Sequence[Contender]
    size: Size
    rounds: int

    @property
    def names(self) -> list[str]:
        """The contenders, the one the others are compared with first."""
        return [contender.name for contender in self.contenders]

    @property
    def title(self) -> str:
        """One line above the tables."""
        version = kubernetes_version()
        return f"{self.size.nodes} nodes, {self.size.pods} pods, {self.rounds} rounds, Kubernetes {version}"

    def order(self, number: int) -> Sequence[Contender]:
        """Who goes when in a round: every other round the other way around, so that nobody is always first."""
        return self.contenders if number % 2 else self.contenders[::-1]


async def measure(plan: Plan) -> list[Turn]:
    """All turns of all rounds, on one control plane of their own."""
    turns: list[Turn] = []
    _say("starting the control plane")
    async with ControlPlane(_OPTIONS) as plane:
        await install(plane.api)
        await workload.prepare(plane.api)
        _say(f"making {plan.size.nodes} nodes")
        await create_nodes(plane.api, plan.size.nodes)
        for number in range(plan.rounds + 1):
            size = plan.size if number else Size(plan.size.nodes, min(WARM_UP_PODS, plan.size.pods), plan.size.seconds)
            for contender in plan.order(number):
                turn = await _turn(plane, contender, number, size)
                turns += [turn] if number else []
    return turns


async def _turn(plane: ControlPlane, contender: Contender, number: int, size: Size) -> Turn:
    with tempfile.TemporaryDirectory(prefix="pyscheduler-bench-") as folder:
        turn = await take_turn(plane, contender, number, size, Path(folder))
    _say(
        f"{f'round {number}' if number else 'warm-up'}: {contender.name} bound {turn.pods} pods at"
        f" {per_second(turn) or 0:.0f}/s with {turn.cpu / turn.pods * 1000:.3f} ms of CPU each;"
        f" others used {turn.others:.2f} cores"
    )
    return turn


def _about(plan: Plan) -> dict[str, Any]:
    return {
        "nodes": plan.size.nodes,
        "pods": plan.size.pods,
        "rounds": plan.rounds,
        "kubernetes": kubernetes_version(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def chosen(names: str) -> list[Contender]:
    """BadParameter for a name that is not a contender's."""
    try:
        return [CONTENDERS[name.strip()] for name in names.split(",")]
    except KeyError as unknown:
        problem = f"there is no {unknown}; there are {', '.join(CONTENDERS)}"
        raise typer.BadParameter(problem, param_hint="--contenders") from None


def main(
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the cluster.")] = 5000,
    pods: Annotated[int, typer.Option(min=2, help="Pods that each contender binds in each round.")] = 5000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in each of which every contender has its turn.")] = 3,
    contenders: Annotated[
        str, typer.Option(help="Who takes part, by commas; the others are compared with the first.")
    ] = ",".join(CONTENDERS),
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write figures and turns there as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables there.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Patience with one turn.")] = 600.0,
) -> None:
    """Measure schedulers side by side on one real API server, started here and ended afterwards."""
    # An installed scheduler has its byte code; the warm-up writes it where it is missing.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    plan = Plan(chosen(contenders), Size(nodes, pods, seconds), rounds)
    try:
        turns = uvloop.run(measure(plan))
    except (BuildError, ProcessFailed, Unfinished) as problem:
        _say(f"error: {problem}")
        raise typer.Exit(1) from None
    figures, each = report.figures(turns, plan.names), report.rounds(turns)
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(report.table(plan.title, figures), report.table("Turn by turn", each))
    if json:
        json.write_bytes(report.document(_about(plan), turns, plan.names))
    if markdown:
        markdown.write_text(report.markdown(plan.title, figures, each))


if __name__ == "__main__":
    typer.run(main)
