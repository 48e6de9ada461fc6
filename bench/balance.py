"""Placement quality: distribution of pods and requested CPU over the nodes, to compare beside speed."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.manifests import NODE, Batch, collection
from bench.program import Create, Program


@dataclass(frozen=True)
class Balance:
    """`nodes_used`, `most_on_a_node` and `deviation` are of the measured pods, the last over all nodes.

    `cpu_deviation` is the standard deviation, over all nodes, of the share of a node's CPU that all its pods request,
    in percent.
    """

    nodes_used: int
    most_on_a_node: int
    deviation: float
    cpu_deviation: float

    @classmethod
    def of(cls, chosen: Iterable[str], cpu: Mapping[str, float]) -> Balance:
        """Return the balance of the nodes of the measured pods and the requested share (0 to 1) of each node."""
        counts = Counter(node for node in chosen)
        idle = len(cpu.keys() - counts.keys())
        return cls(
            len(counts),
            max(counts.values(), default=0),
            statistics.pstdev([*counts.values(), *[0] * idle]) if counts or idle else 0.0,
            100 * statistics.pstdev(cpu.values()) if cpu else 0.0,
        )


def requested(program: Program, placed: Mapping[str, str], deleted: Iterable[tuple[Batch, int]]) -> dict[str, float]:
    """Return the requested share of CPU of each node. `placed` is by NAMESPACE/NAME; `deleted` pods do not count."""
    created = [step.what for step in program.steps if isinstance(step, Create) and isinstance(step.what, Batch)]
    capacities = {
        name: _cpu(_decode(batch)["status"]["capacity"]["cpu"])
        for batch in [*program.nodes, *created]
        if batch.path == collection("Node")
        for name in batch.names()
    }
    used: Counter[str] = Counter()
    for batch in program.shared:
        if NODE in batch.words:
            each = _request(batch)
            for number in range(batch.count):
                used[_node(batch, number)] += each
    for batch, number in deleted:
        if NODE in batch.words:
            used[_node(batch, number)] -= _request(batch)
    for pods in program.scheduled:
        each = _request(pods.batch)
        for node in filter(None, map(placed.get, pods.full_names())):
            used[node] += each
    return {name: used[name] / capacity for name, capacity in capacities.items()}


def _node(batch: Batch, number: int) -> str:
    names = batch.words[NODE]
    return names[number % len(names)]


def _request(batch: Batch) -> int:
    """Return the CPU requests of a pod of the batch in milli-CPUs."""
    containers = _decode(batch)["spec"]["containers"]
    return sum(_cpu(c.get("resources", {}).get("requests", {}).get("cpu", "0")) for c in containers)


def _cpu(quantity: str | float) -> int:
    """Return the milli-CPUs of "4" or "900m"."""
    text = str(quantity)
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def _decode(batch: Batch) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(batch.body)
    return found
