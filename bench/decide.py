"""Decisions alone: what one attempt costs in process, without an API server, for pods that ask for different things.

Run `python -m bench.decide` (or `make bench-decide`). A pod "follows" when one of its shape was decided on before, and
is "new" when none was; CPU time of `Machine.cycle`, so others on the machine do not count.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.asks import ASKS, Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.commands import Bind
from pyscheduler.core.context import Settings
from pyscheduler.core.events import Bound, NodeChanged, PodChanged
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.machine import Machine

ZONES = 10
FEWEST = 20
"""Decisions of each kind, at least, that a figure is made of."""


@dataclass(frozen=True)
class Figure:
    """One kind of pod on one size of cluster; milliseconds of CPU."""

    asks: str
    nodes: int
    assigned: int
    new: float
    follows: float
    worst: float


class World:
    """A machine with nodes, each pod of `assigned` on the node of its turn."""

    def __init__(self, nodes: int, assigned: int) -> None:
        handle = CoreHandle()
        self.machine = Machine(build_profiles(default(), handle), handle, None, Settings())
        for i in range(nodes):
            self.machine.handle(NodeChanged(0.0, msgspec.convert(_node(i), NodeObject)))
        for i in range(assigned):
            # Half of them are like the pods to come, so that there is something to count.
            labels = {"app": "web" if i % 2 else "other"}
            self.show(_pod(f"old-{i}", labels, {}, f"node-{i * 7 % nodes}"))

    def show(self, pod: Json) -> None:
        self.machine.handle(PodChanged(0.0, msgspec.convert(pod, PodObject)))

    def decide(self, name: str, asks: Json, labels: dict[str, str]) -> float:
        """Milliseconds of CPU for the attempt of one pod, which must be bound."""
        self.show(_pod(name, labels, asks))
        started = time.process_time_ns()
        commands = self.machine.cycle(0.0)
        spent = (time.process_time_ns() - started) / 1e6
        bind = next((c for c in commands or () if isinstance(c, Bind)), None)
        if bind is None:
            raise SystemExit(f"{name} was not placed: {commands}")
        self.machine.handle(Bound(0.0, bind.pod.uid))
        self.show(_pod(name, labels, asks, bind.node_name))
        return spent


def _node(i: int) -> Json:
    labels = {"kubernetes.io/hostname": f"node-{i}", "topology.kubernetes.io/zone": f"zone-{i % ZONES}"}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"allocatable": allocatable}}


def _pod(name: str, labels: dict[str, str], asks: Json, node_name: str = "") -> Json:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "default-scheduler", **asks}
    if node_name:
        spec["nodeName"] = node_name
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels}, "spec": spec}


def figures(asks: str, nodes: int, assigned: int, pods: int) -> Figure:
    """Decide on `pods` pods of one shape, then on pods of which each has a shape of its own."""
    world = World(nodes, assigned)
    labels = {"app": "web"}
    world.decide("first", ASKS[asks], labels)
    follows = [world.decide(f"next-{i}", ASKS[asks], labels) for i in range(pods)]
    new = [world.decide(f"new-{i}", ASKS[asks], {**labels, "turn": str(i)}) for i in range(max(FEWEST, pods // 10))]
    return Figure(asks, nodes, assigned, statistics.median(new), statistics.median(follows), max(follows))


def table(found: list[Figure]) -> Table:
    """The figures as people read them."""
    shown = Table("pods ask for", "nodes", "pods there", "new shape, ms", "follows, ms", "worst, ms")
    for f in found:
        shown.add_row(f.asks, f"{f.nodes:,}", f"{f.assigned:,}", f"{f.new:.2f}", f"{f.follows:.3f}", f"{f.worst:.2f}")
    return shown


def main(
    nodes: Annotated[list[int], typer.Option(min=1, help="Nodes of the cluster; give it again for a curve.")] = [5000],  # noqa: B006
    per_node: Annotated[int, typer.Option(min=0, help="Pods that run on each node before.")] = 2,
    pods: Annotated[int, typer.Option(min=1, help="Pods of one shape to decide on.")] = 200,
    asks: Annotated[str, typer.Option(help="What pods ask for, by commas.")] = ",".join(ASKS),
) -> None:
    """Measure decisions alone; milliseconds of CPU per decision, medians."""
    wanted = [name.strip() for name in asks.split(",")]
    unknown = [name for name in wanted if name not in ASKS]
    if unknown:
        raise typer.BadParameter(f"there is no {unknown[0]}; there are {', '.join(ASKS)}", param_hint="--asks")
    found = [figures(name, size, size * per_node, pods) for name in wanted for size in _sizes(nodes)]
    Console().print(table(found))


def _sizes(nodes: list[int]) -> Iterator[int]:
    yield from sorted(set(nodes))


if __name__ == "__main__":
    typer.run(main)
