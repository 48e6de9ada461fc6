"""Output of `up`: progress of the applied workloads, and a table of nodes and their pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from rich.table import Table

from pyscheduler.api.counts import counted
from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import CPU, amounts
from pyscheduler.embedded import Api
from pyscheduler.embedded.objects import Json

_SHOWN_NODES, _SHOWN_WORKLOADS = 50, 4
FINAL = ("Succeeded", "Failed")
_WORKLOADS = (("deployments", "apps"), ("replicasets", "apps"), ("jobs", "batch"))


@dataclass(frozen=True, slots=True)
class WorkloadProgress:
    """Number of pods by state, pods without a node, and workloads that have not created all their pods."""

    phases: Counter[str] = field(default_factory=Counter)
    unbound: tuple[Json, ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """True if every pod is bound or final, and all pods of the workloads exist."""
        return not self.unbound and not self.unfinished

    @property
    def line(self) -> str:
        """Progress as one line."""
        total = sum(self.phases.values())
        states = ", ".join(f"{n} {phase.lower()}" for phase, n in sorted(self.phases.items()))
        more = len(self.unfinished) - _SHOWN_WORKLOADS
        names = ", ".join(self.unfinished[:_SHOWN_WORKLOADS]) + (f" and {more} more" if more > 0 else "")
        waiting = f"; creating pods for {names}" if names else ""
        placed = f"{total - len(self.unbound)} of {counted(total, 'pod')} assigned to nodes"
        return f"{placed} ({states or 'no pods yet'}){waiting}"


def current_progress(api: Api) -> WorkloadProgress:
    """Return the progress of all workloads."""
    pods = listed(api, "pods")
    unbound = tuple(p for p in pods if not p["spec"].get("nodeName") and p["status"].get("phase") not in FINAL)
    phases = Counter(pod_state(p) for p in pods)
    unfinished = tuple(
        f"{plural.removesuffix('s')}/{obj['metadata']['name']}"
        for plural, group in _WORKLOADS
        for obj in listed(api, plural, group)
        if not _has_its_pods(plural, obj)
    )
    return WorkloadProgress(phases, unbound, unfinished)


def node_table(api: Api) -> Table:
    """Return a table with the CPU usage and the pods of each node, of the first 50 in a large cluster."""
    pods: dict[str, list[Json]] = defaultdict(list)
    for pod in listed(api, "pods"):
        pods[pod["spec"].get("nodeName", "")].append(pod)
    table = Table("node", "cpu", "pods", title="What runs where", title_justify="left", show_lines=True)
    nodes = listed(api, "nodes")
    for node in nodes[:_SHOWN_NODES]:
        name = node["metadata"]["name"]
        on_node = pods.pop(name, [])
        table.add_row(name, _cpu(node, on_node), "\n".join(_pod_line(p) for p in on_node) or "-")
    if len(nodes) > _SHOWN_NODES:
        table.add_row(f"{len(nodes) - _SHOWN_NODES} more", "", "kubectl get pods -A -o wide")
    if pods.get(""):
        table.add_row("(none)", "", "\n".join(_pod_line(p) for p in pods[""][:_SHOWN_NODES]))
    return table


def pending_reason(pod: Json) -> str:
    """Return the pod's name and the message of its PodScheduled condition."""
    conditions = pod["status"].get("conditions") or ()
    scheduled = next((c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), None)
    meta = pod["metadata"]
    reason = (scheduled.get("message") or scheduled.get("reason")) if scheduled else _not_tried(pod)
    return f"{meta['namespace']}/{meta['name']}: {reason}"


def _not_tried(pod: Json) -> str:
    return f"no scheduler has tried it; its spec.schedulerName is {pod['spec'].get('schedulerName')!r}"


def listed(api: Api, plural: str, group: str = "") -> list[Json]:
    """Return all objects of a kind."""
    return [version.object for version in api.list(api.resource(plural, group)).items]


def pod_state(pod: Json) -> str:
    """Return the phase of a pod, Starting if it has a node and does not run yet."""
    phase = str(pod["status"].get("phase", "Pending"))
    return "Starting" if phase == "Pending" and pod["spec"].get("nodeName") else phase


def _has_its_pods(plural: str, obj: Json) -> bool:
    """Return True if the workload's controller has observed it and created all its pods."""
    spec, status = obj["spec"], obj.get("status") or {}
    if plural == "jobs":
        parallelism = spec.get("parallelism", 1)
        return bool(status.get("active", 0) >= parallelism or status.get("succeeded") or status.get("completionTime"))
    observed = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
    return bool(observed and status.get("replicas", 0) >= spec.get("replicas", 1))


def _cpu(node: Json, pods: list[Json]) -> str:
    running = [p for p in pods if p["status"].get("phase") not in FINAL]
    used = sum(_requested(p) for p in running)
    total = amounts(node["status"].get("allocatable")).get(CPU, 0)
    return f"{used / 1000:g} of {total / 1000:g}"


def _requested(pod: Json) -> int:
    try:
        return sum(
            amounts((c.get("resources") or {}).get("requests")).get(CPU, 0) for c in pod["spec"].get("containers", ())
        )
    except QuantityError:
        return 0


def _pod_line(pod: Json) -> str:
    return f"{pod['metadata']['name']}  {pod_state(pod)}"
