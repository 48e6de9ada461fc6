"""Usage: keep pods off nodes that are busy, and prefer idle ones, by measured usage (Volcano's usage)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    NODE,
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
)
from pyscheduler_plugins.usage.columns import Evaluation, UsageColumns
from pyscheduler_plugins.usage.samples import NODE_METRIC, RESOURCES, Sample, Samples, sample_of

BUSY: Final = tuple(
    Rejection(f"node(s) had a {resource} usage above the threshold", resolvable=False) for resource in RESOURCES
)
"""Evicting pods would not help at once: usage is an average over minutes."""
_DAEMON_SET: Final = "DaemonSet"


@dataclass(frozen=True, slots=True)
class Percentages:
    """Percent of the allocatable amount of a node; 0 for no limit."""

    cpu: int = 80
    memory: int = 80


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the resources in the score."""

    cpu: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class UsageArgs:
    """Thresholds of Filter, weights of Score, and the age in seconds from which a sample is ignored.

    The age is the difference to the newest sample of any node.
    """

    thresholds: Percentages = Percentages()
    weights: Weights = Weights()
    max_age_seconds: int = 300

    def __post_init__(self) -> None:
        for field in ("thresholds", "weights"):
            for name in RESOURCES:
                value = getattr(getattr(self, field), name)
                if not 0 <= value <= 100:
                    raise ValueError(f"{field}.{name}: must be from 0 to 100, not {value}")
        if not self.weights.cpu + self.weights.memory:
            raise ValueError("weights: one of them must be above 0")
        if self.max_age_seconds <= 0:
            raise ValueError(f"maxAgeSeconds: must be above 0, not {self.max_age_seconds}")


class Usage(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes with a measured usage above a threshold; score nodes by their idle share.

    The score adds the requests of pods that are not measured yet, so that pods that come at once do not all go to the
    node that was the idlest. A node without a current sample is not rejected and scores 0.
    """

    name = "Usage"
    Args = UsageArgs
    reads = Reads.EVERYTHING
    reads_in_dry_run = Reads.OWN_NODE
    watches = (NODE_METRIC,)

    def __init__(self, args: UsageArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._thresholds = (args.thresholds.cpu, args.thresholds.memory)
        self._weights = (args.weights.cpu, args.weights.memory)
        self._samples = Samples(handle.objects, args.max_age_seconds)
        self._columns = UsageColumns(self._samples, handle.nodes, self._evaluate)

    # -- events --------------------------------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(NODE_METRIC.kind, Action.UPDATE | Action.DELETE, self._usage_changed),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        )

    def _usage_changed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        nodes = self.handle.nodes.table()
        obj = event.new or event.old
        rows = np.flatnonzero(nodes.named(frozenset({obj["metadata"]["name"]})))
        old = sample_of(event.old or {})
        if not len(rows) or old is None:
            return QueueingHint.SKIP
        node, new = nodes[int(rows[0])], sample_of(event.new or {})
        fell = self._busy(node, old) and not (new and self._busy(node, new))
        return QueueingHint.QUEUE if fell else QueueingHint.SKIP

    # -- filter --------------------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        self._samples.refresh()
        owner = pod.signature.owner
        # The controller has chosen the node already, and pods of nodes must run on busy ones, too.
        if not len(self._samples) or not any(self._thresholds) or (owner is not None and owner.kind == _DAEMON_SET):
            return SKIP
        return None

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        sample = self._fresh_sample(node.name)
        busy = self._busy(node, sample) if sample else 0
        return BUSY[busy - 1] if busy else None

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        evaluations = self._columns.of(nodes)
        if evaluations is None:
            return super().filter_all(cycle, pod, nodes)
        result = NodeToStatus(len(nodes))
        if evaluations.busy.any():
            result.rejections.extend(BUSY)
            result.codes = evaluations.busy
        return result

    # -- score ---------------------------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        self._samples.refresh()
        return None if len(self._samples) else SKIP

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        sample = self._fresh_sample(node.name)
        return self._score(node, sample) if sample else 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        evaluations = self._columns.of(nodes)
        return super().score_all(cycle, pod, nodes) if evaluations is None else evaluations.scores

    # -- one node ------------------------------------------------------------------------------------------------

    def _fresh_sample(self, name: str) -> Sample | None:
        self._samples.refresh()
        sample = self._samples.get(name)
        return sample if sample is not None and self._samples.is_fresh(sample) else None

    def _evaluate(self, node: NodeInfo, sample: Sample) -> Evaluation:
        return Evaluation(self._busy(node, sample), self._score(node, sample))

    def _busy(self, node: NodeInfo, sample: Sample) -> int:
        """Return the number, from 1, of the first resource with a usage above its threshold; 0 if there is none."""
        for i, (resource, used) in enumerate(zip(RESOURCES, sample.usage, strict=True)):
            if self._thresholds[i] and used * 100 > node.allocatable.get(resource, 0) * self._thresholds[i]:
                return i + 1
        return 0

    def _score(self, node: NodeInfo, sample: Sample) -> int:
        # A sample does not include pods that started after it, or have not started yet.
        later = [pod.requests.non_zero for pod in node.pods.values() if pod.started > sample.time]
        total = 0.0
        for resource, used, weight in zip(RESOURCES, sample.usage, self._weights, strict=True):
            busy = used + sum(requests[resource] for requests in later)
            capacity = node.allocatable.get(resource, 0)
            if busy < capacity:
                total += weight * (1.0 - busy / capacity)
        return int(MAX_NODE_SCORE * total / sum(self._weights))
