"""Scheduling decisions only: CPU time of attempts in process, without an API server, for several kinds of pods.

Run `pyscheduler bench decide` (or `make bench-decide`). The benchmark fills a queue and measures the time in which
`Machine.cycle` empties it, as CPU time, so that other processes count only as far as they slow the cores down. A pod
"follows" if a pod with an equal signature was scheduled before, has "own labels" if only its template was, and is "new"
otherwise. With `--churn node`, a node reports another image before each attempt; handling that event is not measured.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.pod_features import POD_SPECS, Json
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.config.build import build_profiles
from pyscheduler.config.load import default
from pyscheduler.core.commands import Bind, Command
from pyscheduler.core.events import Bound, NodeChanged, PodChanged
from pyscheduler.core.machine import Machine
from pyscheduler.shell.gc_tuning import GcTuning

ZONES = 10
TEMPLATES = 200
"""Templates of the mixed pods."""
MIN_NEW_PODS = 20
"""Minimum of pods with new templates for a figure."""
Pods = Callable[[int], Json]


@dataclass(frozen=True)
class Figure:
    """CPU time of an attempt in microseconds, for one kind of pod on one size of cluster."""

    kind: str
    nodes: int
    assigned: int
    follows: float
    """Median of the rounds, each a mean over its pods."""
    quickest: float
    labelled: float
    new: float
    worst: float
    """Slowest single attempt of the pods that follow."""


class Round(NamedTuple):
    """Microseconds per attempt: mean CPU time, median and maximum of wall time."""

    mean: float
    median: float
    worst: float


class DecisionFixture:
    """A machine with nodes, and `assigned` pods on them round robin. With `churn`, nodes change between attempts."""

    def __init__(self, nodes: int, assigned: int, churn: bool = False) -> None:
        self.machine = Machine(partial(build_profiles, default()))
        self._named = 0
        self._churn = churn
        self._changes = 0
        for i in range(nodes):
            self.machine.handle(NodeChanged(0.0, msgspec.convert(_node(i), NodeObject)))
        for i in range(assigned):
            # Half of them have the labels of the pending pods, so that selectors match something.
            self._add_pod(pod({}, 0, {"app": "web" if i % 2 else "other"}), f"old-{i}", f"node-{i * 7 % nodes}")

    def decide(self, pods: int, of: Pods) -> Round:
        """Queue `pods` pods, schedule all of them, then report them as bound."""
        waiting = {}
        for i in range(pods):
            self._named += 1
            waiting[f"pod-{self._named}"] = of(i)
        for name, source in waiting.items():
            self._add_pod(source, name)
        commands: list[Command] = []
        each: list[float] = []
        started = time.process_time_ns()
        for _ in range(pods):
            if self._churn:
                started += self._change_node()
            began = time.perf_counter_ns()
            commands += self.machine.cycle(0.0) or []
            each.append((time.perf_counter_ns() - began) / 1e3)
        spent = (time.process_time_ns() - started) / 1e3 / pods
        bound = [command for command in commands if isinstance(command, Bind)]
        if len(bound) < pods:
            raise SystemExit(f"{pods - len(bound)} of {pods} pods were not scheduled: {commands[:2]}")
        for bind in bound:
            self.machine.handle(Bound(0.0, bind.pod.uid))
            self._add_pod(waiting[bind.pod.name], bind.pod.name, bind.node_name)
        return Round(spent, statistics.median(each), max(each))

    def _change_node(self) -> int:
        """Let a node report another image. Return the CPU time in nanoseconds."""
        started = time.process_time_ns()
        self._changes += 1
        node = _node(self._changes * 37 % self.machine.nodes)
        node["status"]["images"] = [{"names": [f"other:{self._changes}"], "sizeBytes": 1 << 28}]
        self.machine.handle(NodeChanged(0.0, msgspec.convert(node, NodeObject)))
        return time.process_time_ns() - started

    def _add_pod(self, source: Json, name: str, node_name: str = "") -> None:
        spec = {**source["spec"], "nodeName": node_name}
        obj = {"metadata": {**source["metadata"], "name": name, "uid": name}, "spec": spec}
        self.machine.handle(PodChanged(0.0, msgspec.convert(obj, PodObject)))


def pod(fields: Json, template: int, labels: dict[str, str]) -> Json:
    """Return a pod without a name; its requests depend on the number of its template."""
    requests = {"cpu": f"{100 + template}m", "memory": f"{200 + template}Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {"containers": [container], "schedulerName": "default-scheduler", **fields}
    return {"metadata": {"namespace": "default", "labels": labels}, "spec": spec}


def _node(i: int) -> Json:
    labels = {"kubernetes.io/hostname": f"node-{i}", "topology.kubernetes.io/zone": f"zone-{i % ZONES}"}
    allocatable = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {"metadata": {"name": f"node-{i}", "labels": labels}, "status": {"allocatable": allocatable}}


def figures(kind: str, nodes: int, assigned: int, pods: int, rounds: int, churn: bool = False) -> Figure:
    """Measure pods with known signatures, then pods with own labels, then pods with own templates."""
    fixture, labels = DecisionFixture(nodes, assigned, churn), {"app": "web"}
    templates = TEMPLATES if kind == "mixed" else 1

    def like(i: int) -> Json:
        return pod(POD_SPECS[kind], i % templates, labels)

    fixture.decide(2 * templates, like)
    with GcTuning():  # as in `pyscheduler run`
        follows = [fixture.decide(pods, like) for _ in range(rounds)]
        few = max(MIN_NEW_PODS, pods // 20)
        labelled = fixture.decide(few, lambda i: pod(POD_SPECS[kind], 0, {**labels, "turn": str(i)}))
        new = fixture.decide(few, lambda i: pod(POD_SPECS[kind], TEMPLATES + i, labels))
    means = [each.mean for each in follows]
    worst = max(each.worst for each in follows)
    return Figure(kind, nodes, assigned, statistics.median(means), min(means), labelled.median, new.median, worst)


def table(found: list[Figure]) -> Table:
    """Return the figures as a table; growth is relative to the smallest cluster."""
    shown = Table(
        "pod spec", "nodes", "assigned pods", "decisions/s", "µs each (fastest round)", "growth", "own labels, µs"
    )
    shown.add_column("new template, µs")
    shown.add_column("slowest, µs")
    least: dict[str, float] = {}
    for f in found:
        growth = f.follows / least.setdefault(f.kind, f.follows)
        each = f"{f.follows:.0f} ({f.quickest:.0f})"
        cells = (f"{f.nodes:,}", f"{f.assigned:,}", f"{1e6 / f.follows:,.0f}", each, f"{growth:.1f}")
        shown.add_row(f.kind, *cells, f"{f.labelled:,.0f}", f"{f.new:,.0f}", f"{f.worst:,.0f}")
    return shown


@click.command(context_settings={"show_default": True})
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    multiple=True,
    default=[5000],
    help="Nodes of the cluster; repeat it for a curve.",
)
@click.option("--per-node", type=click.IntRange(min=0), default=2, help="Pods already running on each node.")
@click.option("--pods", type=click.IntRange(min=1), default=400, help="Pods per round.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, help="Rounds; the median of their means is reported.")
@click.option("--asks", "kinds", default=",".join(POD_SPECS), help="Kinds of pod specs, comma-separated.")
@click.option("--churn", type=click.Choice(["none", "node"]), default="none", help="What changes before each attempt.")
def main(nodes: tuple[int, ...], per_node: int, pods: int, rounds: int, kinds: str, churn: str) -> None:
    """Measure the CPU time of scheduling decisions, on one core and without an API server."""
    wanted = [name.strip() for name in kinds.split(",")]
    unknown = [name for name in wanted if name not in POD_SPECS]
    if unknown:
        raise click.BadParameter(f"there is no {unknown[0]}; use {', '.join(POD_SPECS)}", param_hint="--asks")
    sizes = list(_sizes(nodes))
    found = [figures(name, size, size * per_node, pods, rounds, churn == "node") for name in wanted for size in sizes]
    Console(width=None if sys.stdout.isatty() else 160).print(table(found))


def _sizes(nodes: Iterable[int]) -> Iterator[int]:
    yield from sorted(set(nodes))


if __name__ == "__main__":
    main()
