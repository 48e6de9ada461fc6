"""Decisions alone: what attempts cost in process, without an API server, for pods that ask for different things.

Run `pyscheduler bench decide` (or `make bench-decide`). A queue is filled with pods, and the time is taken in which
`Machine.cycle` empties it: CPU time, so others on the machine count only as far as they slow its cores down. A pod
"follows" when one of its shape was decided on before, has "own labels" when only its template was, and is "new" when
nothing like it was.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.pod_features import ASKS, Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.commands import Bind
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Bound, NodeChanged, PodChanged
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.machine import Machine
from pyscheduler.shell.gc_tuning import GcTuning

ZONES = 10
SHAPES = 200
"""Shapes of the mixed pods."""
FEWEST = 20
"""New shapes, at least, that a figure is made of."""
Pods = Callable[[int], Json]


@dataclass(frozen=True)
class Figure:
    """One kind of pod on one size of cluster: CPU time of an attempt in microseconds."""

    asks: str
    nodes: int
    assigned: int
    follows: float
    """The median of the rounds, each a mean over its pods."""
    quickest: float
    labelled: float
    new: float
    worst: float
    """The slowest single attempt of those that follow."""


class Round(NamedTuple):
    """Microseconds of an attempt: CPU time on the average, time in the middle, and of the slowest one."""

    mean: float
    median: float
    worst: float


class DecisionFixture:
    """A machine with nodes, each pod of `assigned` on the node of its turn."""

    def __init__(self, nodes: int, assigned: int) -> None:
        handle = CoreHandle()
        self.machine = Machine(build_profiles(default(), handle), handle, None, Settings())
        self._named = 0
        for i in range(nodes):
            self.machine.handle(NodeChanged(0.0, msgspec.convert(_node(i), NodeObject)))
        for i in range(assigned):
            # Half of them are like the pods to come, so that there is something to count.
            self._show(pod({}, 0, {"app": "web" if i % 2 else "other"}), f"old-{i}", f"node-{i * 7 % nodes}")

    def decide(self, pods: int, of: Pods) -> Round:
        """Queue so many pods and decide on all. Then they are shown as bound."""
        waiting = {}
        for i in range(pods):
            self._named += 1
            waiting[f"pod-{self._named}"] = of(i)
        for name, source in waiting.items():
            self._show(source, name)
        commands, moments = [], [time.perf_counter_ns()]
        started = time.process_time_ns()
        for _ in range(pods):
            commands += self.machine.cycle(0.0) or []
            moments.append(time.perf_counter_ns())
        spent = (time.process_time_ns() - started) / 1e3 / pods
        each = [(later - earlier) / 1e3 for earlier, later in pairwise(moments)]
        bound = [command for command in commands if isinstance(command, Bind)]
        if len(bound) < pods:
            raise SystemExit(f"{pods - len(bound)} of {pods} pods were not placed: {commands[:2]}")
        for bind in bound:
            self.machine.handle(Bound(0.0, bind.pod.uid))
            self._show(waiting[bind.pod.name], bind.pod.name, bind.node_name)
        return Round(spent, statistics.median(each), max(each))

    def _show(self, source: Json, name: str, node_name: str = "") -> None:
        spec = {**source["spec"], "nodeName": node_name}
        shown = {"metadata": {**source["metadata"], "name": name, "uid": name}, "spec": spec}
        self.machine.handle(PodChanged(0.0, msgspec.convert(shown, PodObject)))


def pod(asks: Json, shape: int, labels: dict[str, str]) -> Json:
    """A pod that has no name yet; what it requests differs from shape to shape."""
    requests = {"cpu": f"{100 + shape}m", "memory": f"{200 + shape}Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "default-scheduler", **asks}
    return {"metadata": {"namespace": "default", "labels": labels}, "spec": spec}


def _node(i: int) -> Json:
    labels = {"kubernetes.io/hostname": f"node-{i}", "topology.kubernetes.io/zone": f"zone-{i % ZONES}"}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"allocatable": allocatable}}


def figures(asks: str, nodes: int, assigned: int, pods: int, rounds: int) -> Figure:
    """Decide on pods that follow their like, then on pods with labels, then with templates of their own."""
    world, labels = DecisionFixture(nodes, assigned), {"app": "web"}
    shapes = SHAPES if asks == "mixed" else 1

    def like(i: int) -> Json:
        return pod(ASKS[asks], i % shapes, labels)

    world.decide(2 * shapes, like)
    with GcTuning():  # as `run` has it
        follows = [world.decide(pods, like) for _ in range(rounds)]
        few = max(FEWEST, pods // 20)
        labelled = world.decide(few, lambda i: pod(ASKS[asks], 0, {**labels, "turn": str(i)}))
        new = world.decide(few, lambda i: pod(ASKS[asks], SHAPES + i, labels))
    means = [each.mean for each in follows]
    worst = max(each.worst for each in follows)
    return Figure(asks, nodes, assigned, statistics.median(means), min(means), labelled.median, new.median, worst)


def table(found: list[Figure]) -> Table:
    """The figures as people read them; growth is against the smallest cluster."""
    shown = Table(
        "pods ask for", "nodes", "pods there", "decisions/s", "µs each (quickest round)", "growth", "own labels, µs"
    )
    shown.add_column("new template, µs")
    shown.add_column("slowest, µs")
    least: dict[str, float] = {}
    for f in found:
        growth = f.follows / least.setdefault(f.asks, f.follows)
        each = f"{f.follows:.0f} ({f.quickest:.0f})"
        cells = (f"{f.nodes:,}", f"{f.assigned:,}", f"{1e6 / f.follows:,.0f}", each, f"{growth:.1f}")
        shown.add_row(f.asks, *cells, f"{f.labelled:,.0f}", f"{f.new:,.0f}", f"{f.worst:,.0f}")
    return shown


@click.command(context_settings={"show_default": True})
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    multiple=True,
    default=[5000],
    help="Nodes of the cluster; give it again for a curve.",
)
@click.option("--per-node", type=click.IntRange(min=0), default=2, help="Pods that run on each node before.")
@click.option("--pods", type=click.IntRange(min=1), default=400, help="Pods of one round.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Rounds; the median of their means is told.")
@click.option("--asks", default=",".join(ASKS), help="What pods ask for, by commas.")
def main(nodes: tuple[int, ...], per_node: int, pods: int, rounds: int, asks: str) -> None:
    """Measure decisions alone, on one core; CPU time per decision."""
    wanted = [name.strip() for name in asks.split(",")]
    unknown = [name for name in wanted if name not in ASKS]
    if unknown:
        raise click.BadParameter(f"there is no {unknown[0]}; there are {', '.join(ASKS)}", param_hint="--asks")
    sizes = list(_sizes(nodes))
    found = [figures(name, size, size * per_node, pods, rounds) for name in wanted for size in sizes]
    Console(width=None if sys.stdout.isatty() else 160).print(table(found))


def _sizes(nodes: Iterable[int]) -> Iterator[int]:
    yield from sorted(set(nodes))


if __name__ == "__main__":
    main()
