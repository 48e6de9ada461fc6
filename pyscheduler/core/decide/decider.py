"""One scheduling attempt up to the choice of a node: kube-scheduler's schedulePod.

The order of questions is kube-scheduler's: PreFilter, the nominated node, Filter over all nodes, Score, pick. Every
node is looked at; ties between the best fall to chance seeded from the attempt.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Status
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.direct import filter_node, fits_with, score_nodes
from pyscheduler.core.decide.evaluation import Evaluation
from pyscheduler.core.decide.prefilter import PreFiltered, run_pre_filter
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow

KEEP_BYTES = 256 * 1024 * 1024
"""How much memory the kept evaluations of one profile may take before the least used ones go."""
MOST_KEPT = 1024
"""How many evaluations are kept however small they are."""
NO_NODES = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "", ("no nodes available to schedule pods",))


@dataclass(frozen=True, slots=True)
class Choice:
    """The node for the pod, and how many nodes fitted."""

    node: NodeRow
    feasible: int


class Decider:
    """Chooses nodes for the pods of one profile."""

    def __init__(self, profile: Profile, state: ClusterState, nominator: Nominator, instrument: Instrument) -> None:
        self._profile = profile
        self._state = state
        self._nominator = nominator
        self._instrument = instrument
        self._kept: OrderedDict[int, Evaluation] = OrderedDict()

    def decide(self, cycle: Cycle, pod: Pod) -> Choice | Diagnosis:
        """A node for the pod, or why there is none. PluginFailed if a plugin raises."""
        if not len(self._state):
            return Diagnosis(0, pre_filter=NO_NODES)
        evaluation = self._evaluation(pod)
        try:
            return self._decide(cycle, pod, evaluation)
        except BaseException:
            self._drop(pod.shape.id)
            raise

    def _decide(self, cycle: Cycle, pod: Pod, evaluation: Evaluation) -> Choice | Diagnosis:
        profile, state = self._profile, self._state
        with _Point(self._instrument, "PreFilter", profile.name) as point:
            pre = run_pre_filter(profile.pre_filter, cycle, pod, state.table(), evaluation.begin())
            if pre.rejection is not None:
                point.status = pre.rejection.code.camel
        if pre.rejection is not None:
            return self._rejected(pre, pre.rejection)
        nominated = self._nominated_choice(cycle, pod, pre)
        if nominated is not None:
            return nominated
        if pre.names is not None:
            return self._among(cycle, pod, pre, pre.names)
        with _Point(self._instrument, "Filter", profile.name) as point:
            feasible = evaluation.refresh_filters(cycle, pod, pre.skipped)
            displaced = self._displaced(cycle, pod, evaluation.feasible)
            if feasible <= len(displaced):
                point.status = Code.UNSCHEDULABLE.camel
        if feasible <= len(displaced):
            return self._no_fit(cycle, pod, evaluation)
        with _Point(self._instrument, "Score", profile.name):
            if displaced:
                # Scores are normalised over the nodes that fit, and those kept count these in.
                fitting = [state.rows[row] for row in np.flatnonzero(evaluation.feasible) if row not in displaced]
                totals = score_nodes(profile, state, cycle, pod, fitting)
                return Choice(fitting[pick(totals, cycle)], len(fitting))
            evaluation.refresh_scores(cycle, pod)
        return Choice(state.rows[pick(evaluation.scores.total[: len(state)], cycle)], feasible)

    def _evaluation(self, pod: Pod) -> Evaluation:
        """What is kept for the pod's shape, the newest at the end."""
        if pod.node_name:
            # Its node is no part of the shape, and what NodeName says of it holds for no other pod.
            return Evaluation(self._profile, self._state)
        kept = self._kept.get(pod.shape.id)
        if kept is not None:
            self._kept.move_to_end(pod.shape.id)
            return kept
        kept = self._kept[pod.shape.id] = Evaluation(self._profile, self._state)
        # All come to much the same size; the oldest one has certainly come to it.
        oldest = next(iter(self._kept.values()))
        while len(self._kept) > min(MOST_KEPT, max(1, KEEP_BYTES // max(1, oldest.bytes))):
            self._kept.popitem(last=False)
        return kept

    def _drop(self, shape: int) -> None:
        self._kept.pop(shape, None)

    def _nominated_choice(self, cycle: Cycle, pod: Pod, pre: PreFiltered) -> Choice | None:
        """The node that an earlier attempt made room on, if the pod fits there now."""
        name = pod.nominated_node_name
        node = self._state.info(name) if name else None
        if node is None or (pre.names is not None and name not in pre.names):
            return None
        return Choice(node, 1) if self._fit(cycle, pod, node, pre) is None else None

    def _among(self, cycle: Cycle, pod: Pod, pre: PreFiltered, names: frozenset[str]) -> Choice | Diagnosis:
        """The attempt over the few nodes that PreFilter left."""
        # Column order, not set order: the same events must give the same choice.
        nodes = sorted((n for name in names if (n := self._state.info(name)) is not None), key=lambda n: n.row)
        statuses = {node.name: self._fit(cycle, pod, node, pre) for node in nodes}
        fitting = [node for node in nodes if statuses[node.name] is None]
        if fitting:
            totals = score_nodes(self._profile, self._state, cycle, pod, fitting)
            return Choice(fitting[pick(totals, cycle)], len(fitting))
        refused = {name: status for name, status in statuses.items() if status is not None}
        outside = pre.outside_status
        tally = Counter(refused.values())
        tally[outside] += len(self._state) - len(refused)
        plugins = {s.plugin for s in refused.values()} | set(pre.restricted_by)
        return _diagnosis(len(self._state), +tally, plugins, lambda name: refused.get(name, outside))

    def _fit(self, cycle: Cycle, pod: Pod, node: NodeRow, pre: PreFiltered) -> Status | None:
        others = rivals(self._nominator, pod, node.name)
        if others:
            status = fits_with(self._profile, self._state, cycle, pod, node, others)
            if status is not None:
                return status
        return filter_node(self._profile, cycle, pod, node, pre.skipped)

    def _displaced(self, cycle: Cycle, pod: Pod, among: NDArray[np.bool_]) -> dict[int, Status]:
        """Of some rows those where the pod would take the place of a nominated one of its priority or above."""
        displaced = {}
        for name in self._nominator.nodes():
            node = self._state.info(name)
            if node is None or not among[node.row]:
                continue
            others = rivals(self._nominator, pod, name)
            if others:
                status = fits_with(self._profile, self._state, cycle, pod, node, others)
                if status is not None:
                    displaced[node.row] = status
        return displaced

    def _no_fit(self, cycle: Cycle, pod: Pod, evaluation: Evaluation) -> Diagnosis:
        state, filters = self._state, evaluation.filters
        tally = filters.tally(len(state))
        # As kube-scheduler asks first with the nominated pods, it is that answer which is told.
        displaced = self._displaced(cycle, pod, np.ones(len(state), np.bool_))
        tally.update(displaced.values())
        tally.subtract(own for row in displaced if (own := filters.status(row)) is not None)
        tally = +tally

        def status_of(name: str) -> Status | None:
            node = state.info(name)
            return None if node is None else displaced.get(node.row) or filters.status(node.row)

        return _diagnosis(len(state), tally, {s.plugin for s in tally}, status_of)

    def _rejected(self, pre: PreFiltered, status: Status) -> Diagnosis:
        rejectors = {status.plugin, *pre.restricted_by}
        diagnosis = _diagnosis(len(self._state), Counter(), rejectors, lambda _: status)
        diagnosis.pre_filter = status
        if status.code is Code.PENDING:
            diagnosis.pending_plugins = {status.plugin}
            diagnosis.unschedulable_plugins -= diagnosis.pending_plugins
        return diagnosis


def rivals(nominator: Nominator, pod: Pod, node_name: str) -> list[Pod]:
    """The pods nominated to the node whose room `pod` must leave: those of its own priority or above."""
    return [p for p in nominator.pods_on(node_name) if p.priority >= pod.priority and p.uid != pod.uid]


def pick(totals: NDArray[np.int64], cycle: Cycle) -> int:
    """The place of the best total; ties are broken by the attempt's own chance."""
    best = np.flatnonzero(totals == totals.max())
    return int(best[cycle.chance() % len(best)]) if len(best) > 1 else int(best[0])


def _diagnosis(
    nodes: int, tally: Counter[Status], plugins: set[str], status_of: Callable[[str], Status | None]
) -> Diagnosis:
    pending = {s.plugin for s in tally if s.code is Code.PENDING}
    return Diagnosis(
        nodes,
        tally,
        status_of,
        unschedulable_plugins=plugins - pending - {""},
        pending_plugins=pending,
    )


_SUCCESS = Code.SUCCESS.camel


class _Point:
    """Tells the instrument when an extension point starts and ends."""

    __slots__ = ("_instrument", "_point", "_profile", "status")

    def __init__(self, instrument: Instrument, point: str, profile: str) -> None:
        self._instrument = instrument
        self._point = point
        self._profile = profile
        self.status = _SUCCESS

    def __enter__(self) -> _Point:
        self._instrument.point_entered(self._point, self._profile)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._instrument.point_left(self._point, self._profile, Code.ERROR.camel if kind else self.status)
