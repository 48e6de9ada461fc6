"""Explanation of one pod: why it is pending or where it is, and what would let it fit; from the objects of a cluster.

The pod is evaluated as if it had no node, by the code that attempts run. Nodes with the same rejections are one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pyscheduler.api.objects import PodObject, PodSpec
from pyscheduler.api.outcome import Status
from pyscheduler.api.pod import Pod
from pyscheduler.cli.batch_cluster import BatchCluster, ListedObjects, ReadScope, batch_config
from pyscheduler.cli.command_problem import CommandProblem
from pyscheduler.cli.explain_hints import hint
from pyscheduler.cli.group_rows import GroupRow, group_rows
from pyscheduler.config.loaded import LoadedConfig
from pyscheduler.core.context import Context
from pyscheduler.core.events import PodChanged, PodGone
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.scheduling.all_rejections import all_rejections
from pyscheduler.core.scheduling.report import report
from pyscheduler_plugins.queues.plugin import DEFAULT_QUEUE

Json = dict[str, Any]
_ENDED: Final = ("Succeeded", "Failed")


class State(StrEnum):
    """State of the pod in an explanation."""

    ENDED = "Ended"
    BOUND = "Bound"
    GATED = "Gated"
    """A PreEnqueue plugin keeps the pod out of the active queue."""
    FITS = "Fits"
    """Some node fits the pod, which has none yet."""
    UNSCHEDULABLE = "Unschedulable"


class PluginRejection(msgspec.Struct, frozen=True, rename="camel"):
    """Rejection of nodes by one plugin."""

    plugin: str
    reasons: Sequence[str]
    code: str
    hint: str
    """Change after which the plugin accepts one of the nodes; "" if the reasons suffice."""


class RejectedNodes(msgspec.Struct, frozen=True, rename="camel"):
    """Nodes that the same plugins reject for the same reasons."""

    nodes: Sequence[str]
    rejections: Sequence[PluginRejection]


class NodeScore(msgspec.Struct, frozen=True, rename="camel"):
    """Weighted scores of a node that fits."""

    node: str
    rank: int
    """1 for the best node; equal totals have the same rank."""
    total: int
    scores: Mapping[str, int]
    """Score of each plugin, with its weight."""


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Explanation of a pod. The fields are the keys of the JSON output."""

    namespace: str
    name: str
    scheduler: str
    state: State
    node: str = ""
    """Node of the pod; "" if it has none."""
    phase: str = ""
    priority: int = 0
    last_attempt: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Reason and message of the PodScheduled condition, if the last attempt failed."""
    gate: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Plugin and reasons of PreEnqueue."""
    nodes: int = 0
    feasible: Sequence[NodeScore] = ()
    """Nodes that fit, the best first."""
    rejected: Sequence[RejectedNodes] = ()
    """Other nodes, those with the fewest rejections first."""
    preemption: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Result of PostFilter, as in `evaluate`."""
    group: GroupRow | None = None
    """Group of the pod; None if it has none."""
    error: str = ""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Explainer:
    """Explains pods among the objects of a cluster, which are loaded once for all pods of a scheduler."""

    def __init__(self, config: LoadedConfig | None, objects: ListedObjects) -> None:
        """`config` None is the default plugins, and those for groups and queues."""
        self._config, self._objects = config, objects
        self._loaded: dict[str, _LoadedCluster] = {}
        """Clusters by the scheduler of their profile; of a configuration there is one, by ""."""

    def explain(self, pods: Sequence[PodObject]) -> list[Explanation]:
        """Return the explanation of each pod. CommandProblem if one cannot be read."""
        return [self._explain(pod) for pod in pods]

    def _explain(self, pod: PodObject) -> Explanation:
        node, phase = pod.spec.node_name, pod.status.phase
        known = _known(pod.metadata.namespace, pod.metadata.name, pod.spec)
        known |= {"node": node, "phase": phase, "last_attempt": _last_attempt(pod), "nodes": len(self._objects.nodes)}
        if phase in _ENDED:
            return Explanation(state=State.ENDED, **known)
        cluster = self._cluster(pod.spec.scheduler_name)
        with cluster.unbound(pod) as found:
            return _explain(cluster.context, found, known, None if node else cluster.group(found))

    def _cluster(self, scheduler: str) -> _LoadedCluster:
        key = "" if self._config is not None else scheduler
        if key not in self._loaded:
            self._loaded[key] = _LoadedCluster(self._config or batch_config(scheduler), self._objects)
        return self._loaded[key]


class _LoadedCluster:
    """Machine with the objects of a cluster, from which one pod at a time is unbound."""

    def __init__(self, config: LoadedConfig, objects: ListedObjects) -> None:
        self._scope = objects.scope
        self._machine = BatchCluster(config).machine(objects)
        self.context: Context = self._machine.context

    @cached_property
    def _groups(self) -> Mapping[str, GroupRow]:
        """Groups by their members."""
        rows = group_rows(self.context, self._scope)
        return {f"{row.namespace}/{member.name}": row for row in rows for member in row.members}

    def group(self, pod: Pod) -> GroupRow | None:
        """Return the group of a pod, None if it has none or is without a profile; only while no pod is unbound."""
        return _shown_group(self._groups.get(pod.key)) if pod.scheduler_name in self.context.profiles else None

    @contextmanager
    def unbound(self, pod: PodObject) -> Iterator[Pod]:
        """Remove the pod from its node in the block; a pod without a node stays as it is. CommandProblem."""
        meta = pod.metadata
        if meta.uid not in self.context.pods:
            raise CommandProblem(f"pod {meta.namespace}/{meta.name} cannot be read; a warning has the reason")
        if pod.spec.node_name:
            self._replace(replace(pod, spec=replace(pod.spec, node_name="")))
        try:
            yield self.context.pods[meta.uid]
        finally:
            if pod.spec.node_name:
                self._replace(pod)

    def _replace(self, pod: PodObject) -> None:
        """Delete a pod and create it as given: the node of a pod cannot change."""
        self._machine.handle(PodGone(0.0, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))
        self._machine.handle(PodChanged(0.0, pod))


def explain_in_context(context: Context, pod: Pod, node: str) -> Explanation:
    """Return the explanation of a pod without a node in the state of a scheduler that is about to attempt it.

    `node` is the node that the attempt chooses; "" if it fails.
    """
    known = _known(pod.namespace, pod.name, pod.spec)
    known |= {"node": node, "phase": "Pending", "nodes": len(context.state)}
    return _explain(context, pod, known, _group(context, pod, ReadScope()))


def _known(namespace: str, name: str, spec: PodSpec) -> Json:
    """Return the fields of an explanation that a pod always has."""
    return {"namespace": namespace, "name": name, "scheduler": spec.scheduler_name, "priority": spec.priority or 0}


def _explain(context: Context, found: Pod, known: Json, group: GroupRow | None) -> Explanation:
    """Return the explanation of a pod without a node, with what is `known` of it."""
    node = known["node"]
    rejections: list[Sequence[Status]] = []
    evaluated = report(context, found, lambda run: rejections.extend(all_rejections(context.state, run)))
    if (gate := evaluated.get("preenqueue")) is not None:
        return Explanation(state=State.BOUND if node else State.GATED, gate=gate, group=group, **known)
    feasible = _feasible(evaluated)
    state = State.BOUND if node else State.FITS if feasible else State.UNSCHEDULABLE
    error = evaluated.get("error", "")
    if found.scheduler_name not in context.profiles:
        error = f"{error}; profiles of the configuration: {', '.join(context.profiles)}"
    return Explanation(
        state=state,
        feasible=feasible,
        rejected=[] if error else _rejected(context, found, rejections),
        preemption=evaluated.get("preemption", {}),
        group=group,
        error=error,
        **known,
    )


def _last_attempt(pod: PodObject) -> Mapping[str, str]:
    for each in pod.status.conditions or ():
        if each.type == "PodScheduled" and each.status == "False":
            return {"reason": each.reason or "", "message": each.message or ""}
    return {}


def _group(context: Context, pod: Pod, scope: ReadScope) -> GroupRow | None:
    """Return the group that the pod is in; a pod without one is a group of its own if it names a queue."""
    if pod.scheduler_name not in context.profiles:
        return None
    rows = (row for row in group_rows(context, scope) if row.namespace == pod.namespace)
    return _shown_group(next((row for row in rows if any(member.name == pod.name for member in row.members)), None))


def _shown_group(row: GroupRow | None) -> GroupRow | None:
    """Return the group; None for a single pod that names no queue."""
    return None if row is None or (row.api == SINGLE_POD and row.queue == DEFAULT_QUEUE) else row


def _feasible(evaluated: Json) -> list[NodeScore]:
    """Return the nodes that fit, the best first."""
    total, scores = evaluated.get("total", {}), evaluated.get("scores", {})
    best_first = sorted(total, key=lambda name: (-total[name], name))
    ranks = {points: rank for rank, points in reversed([*enumerate((total[name] for name in best_first), 1)])}
    return [
        NodeScore(name, ranks[total[name]], total[name], {plugin: each[name] for plugin, each in scores.items()})
        for name in best_first
    ]


def _rejected(context: Context, pod: Pod, rejections: Sequence[Sequence[Status]]) -> list[RejectedNodes]:
    """Return the nodes that do not fit by their rejections: those with few first, of those the most nodes."""
    rows_by_statuses: dict[tuple[Status, ...], list[int]] = {}
    for row, statuses in enumerate(rejections):
        if statuses:
            rows_by_statuses.setdefault(tuple(statuses), []).append(row)
    ordered = sorted(rows_by_statuses.items(), key=lambda item: (len(item[0]), -len(item[1])))
    return [
        RejectedNodes(
            [context.state.rows[row].name for row in rows],
            [
                PluginRejection(status.plugin, status.reasons, status.code.camel, hint(context, pod, rows, status))
                for status in statuses
            ],
        )
        for statuses, rows in ordered
    ]
