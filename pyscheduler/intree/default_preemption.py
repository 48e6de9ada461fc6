"""DefaultPreemption: evict pods of lower priority to make a pod schedulable.

A dry run removes the lower-priority pods of each candidate node and reprieves as many as possible; the node with the
least costly victims is nominated (kube-scheduler's defaultpreemption and its preemption framework).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import (
    POD,
    Action,
    Candidate,
    ClearNomination,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    Cycle,
    Diagnosis,
    Handle,
    NodeInfo,
    Nominate,
    Pod,
    PodCount,
    PodSignature,
    PreemptionPlugin,
    PreemptionSearch,
    PreEnqueuePlugin,
    QueueingHint,
    Rejection,
    Status,
    StatusError,
)
from pyscheduler.intree._label_selectors import aggregate
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.preemption.budgets import PDB, Budgets
from pyscheduler.intree.preemption.dry_run_cache import DryRunCache, DryRunOutcome
from pyscheduler.intree.preemption.victims import (
    Loss,
    ReprieveCandidates,
    best,
    candidate,
    dry_run,
    is_being_preempted,
    least,
    loss,
    reprieve_candidates,
)

T = TypeVar("T")
NO_VICTIMS = ("No preemption victims found for incoming pod",)
NOT_HELPFUL = ("Preemption is not helpful for scheduling",)
BATCH = 256
"""Nodes of one step at most, fewer if they have many pods."""
BATCH_PODS = 1024
DRY_RUN_PODS = 64
"""Pods reprieved in one step at most: each reprieve runs all Filter plugins again, up to 0.2 ms."""
Steps = Generator[None, None, T]
FEW = 8
"""Number of nodes up to which dry runs one by one are faster than one over all of them."""
_WAITING = Rejection("waiting for the preemption for this pod to be finished", resolvable=False)
_NEVER = "not eligible due to preemptionPolicy=Never."
_TERMINATING_VICTIMS = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """kubescheduler.config.k8s.io/v1 DefaultPreemptionArgs.

    The dry run stops at the larger of two numbers of candidates: a percentage of the potential nodes and an absolute.
    """

    min_candidate_nodes_percentage: Annotated[int, "int32"] = 10
    min_candidate_nodes_absolute: Annotated[int, "int32"] = 100

    def __post_init__(self) -> None:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        problems = []
        if not 0 <= percentage <= 100:
            problems.append(invalid("minCandidateNodesPercentage", percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            problems.append(invalid("minCandidateNodesAbsolute", absolute, "not in valid range [0, inf)"))
        if percentage == 0 == absolute:
            both = "cannot be zero at the same time as "
            problems.append(invalid("minCandidateNodesPercentage", 0, both + "minCandidateNodesAbsolute"))
            problems.append(invalid("minCandidateNodesAbsolute", 0, both + "minCandidateNodesPercentage"))
        raise_for_problems(problems)

    def num_candidates(self, nodes: int) -> int:
        """Return the number of candidates to find among that many potential nodes."""
        return min(nodes, max(nodes * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute))


@dataclass(frozen=True, slots=True)
class _LowerPriority(PodCount):
    """Count of pods with a lower priority."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority)


@dataclass(slots=True)
class _DryRunResult:
    """Collected outcomes of the dry run."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    rejections: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Number of nodes without a candidate, by reasons."""
    errors: list[str] = field(default_factory=list)
    violating: int = 0
    losses: dict[str, Loss] = field(default_factory=dict)
    """By candidate."""

    def record(self, name: str, outcome: DryRunOutcome) -> None:
        if isinstance(outcome, Status) and outcome.code is Code.ERROR:
            self.errors += outcome.reasons
        elif isinstance(outcome, Status):
            self.rejections[outcome.reasons] += 1
        elif not outcome.victims:
            self.errors.append(f'expected at least one victim pod on node "{name}"')
        else:
            self.candidates[name] = outcome
            self.losses[name] = loss(outcome)
            self.violating += outcome.pdb_violations > 0

    def has_enough(self, enough: int) -> bool:
        """Return True if there are enough candidates, at least one without PDB violations."""
        return len(self.candidates) >= enough and len(self.candidates) > self.violating


class DefaultPreemption(PreemptionPlugin, PreEnqueuePlugin):
    """Nominate the node with the least costly victims, and have them evicted."""

    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    watches = (PDB,)
    reads_labels = False
    reads_claims = False
    reads_match_fields = False
    is_repeatable = True

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._dry_run_cache = DryRunCache()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Deletions let PreEnqueue run again; the hints of the plugins that rejected the pod decide if one requeues it.
        return (ClusterEventWithHint(POD, Action.DELETE, _never_requeue),)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return _WAITING if self.handle.evictions.is_preempting(pod.uid) else None

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        return exhaust(self.post_filter_steps(cycle, pod, diagnosis))

    def post_filter_steps(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
    ) -> Generator[None, None, Nominate | ClearNomination | Rejection]:
        found = yield from self._search(cycle, pod, diagnosis, exhaustive=False)
        if found.status is Code.ERROR:
            raise StatusError(found.message)
        if found.nominated_node:
            return Nominate(found.nominated_node, found.victims)
        rejection = Rejection(found.message)
        return rejection if found.nominated_node is None else ClearNomination(rejection)

    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        return exhaust(self._search(cycle, pod, diagnosis, exhaustive=True))

    def choose(self, candidates: Mapping[str, Candidate]) -> str:
        return best(candidates)[0]

    def _search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, exhaustive: bool) -> Steps[PreemptionSearch]:
        reason = self._not_eligible(pod, diagnosis)
        if reason:
            return PreemptionSearch(Code.UNSCHEDULABLE, f"preemption: {reason}")
        result = yield from self._dry_run(cycle, pod, diagnosis, exhaustive)
        if not result.candidates:
            return _no_candidates(diagnosis.total_nodes, result)
        ties = least(result.losses)
        return PreemptionSearch(Code.SUCCESS, "", ties[0], result.candidates, ties)

    def _not_eligible(self, pod: Pod, diagnosis: Diagnosis) -> str:
        if pod.spec.preemption_policy == "Never":
            return _NEVER
        # Not status.nominatedNodeName: the API server may not have the nomination of an earlier attempt yet.
        nominated = self.handle.nominator.nominated_node(pod)
        if not nominated or not _may_help(diagnosis.status_of(nominated)):
            return ""
        node = next((n for n in self.handle.nodes.table() if n.name == nominated), None)
        pods = node.pods.values() if node else ()
        return _TERMINATING_VICTIMS if any(p.priority < pod.priority and is_being_preempted(p) for p in pods) else ""

    def _dry_run(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, exhaustive: bool) -> Steps[_DryRunResult]:
        """Dry-run preemption on potential nodes, from a random offset on, until there are enough candidates."""
        result, nodes = _DryRunResult(), self.handle.nodes.table()
        helpful = diagnosis.resolvable(nodes)
        total = int(np.count_nonzero(helpful))
        if not total:
            return result
        start = cycle.rng().randrange(total)
        lower = nodes.count_pods(_LowerPriority(pod.priority)) > 0
        if not (helpful & lower).any():  # frequent: in a full cluster of one priority each pending pod comes here
            result.rejections[NO_VICTIMS] += total
            return result
        infeasible = self.handle.dry_runs.filter_without_lower_priority(cycle, pod, pod.priority)
        places = np.flatnonzero(helpful)
        places = np.concatenate((places[start:], places[:start]))
        potential = places[lower[places] & (infeasible.codes[places] == 0)]
        enough = total + 1 if exhaustive else self.args.num_candidates(total)
        node_infos = list(nodes)
        while potential.size:
            yield
            # Batch the nodes, but no more than needed if each is a candidate.
            missing = enough - len(result.candidates)
            most = min(missing if missing > 0 else max(1, enough), BATCH)
            batch, potential = np.split(potential, [_nodes_of_step(node_infos, potential[:most])])
            for found in self._outcomes(cycle, pod, {place: node_infos[place] for place in batch.tolist()}):
                if found is None:
                    yield
                    continue
                result.record(*found)
                if result.has_enough(enough):
                    return result
        result.rejections[NO_VICTIMS] += int(np.count_nonzero(helpful & ~lower))
        counts = np.bincount(infeasible.codes[helpful & lower], minlength=len(infeasible.rejections) + 1)
        for rejection, count in zip(infeasible.rejections, counts[1:].tolist(), strict=True):
            result.rejections[rejection.reasons] += count
        return result

    def _outcomes(
        self, cycle: Cycle, pod: Pod, nodes: Mapping[int, NodeInfo]
    ) -> Iterator[tuple[str, DryRunOutcome] | None]:
        """Yield (node name, outcome) for nodes by index, in their order; None at the end of a step."""
        cached = self._dry_run_cache.of(pod.signature.template, self.handle.objects.version(PDB))
        cache_keys = {place: self.handle.dry_runs.cache_key(cycle, pod, node) for place, node in nodes.items()}
        untried = {place: node for place, node in nodes.items() if not cached.is_current(node.name, cache_keys[place])}
        budgets = Budgets(self.handle.objects[PDB])
        pods = {place: reprieve_candidates(pod, node, budgets) for place, node in untried.items()}
        yield None
        reprieved = self._reprieve_in_batch(cycle, pod, pods) if len(pods) > FEW else {}
        yield None
        filter_runs = 0
        for place, node in nodes.items():
            if place in untried:
                if place not in reprieved:
                    filter_runs += 1 + len(pods[place].order)
                    if filter_runs > DRY_RUN_PODS:
                        filter_runs = 0
                        yield None
                outcome = self._dry_run_node(cycle, pod, node, pods[place], reprieved.get(place))
                cached.store(node.name, cache_keys[place], outcome)
                yield node.name, outcome
            else:
                yield node.name, cached.outcome(node.name)

    def _reprieve_in_batch(
        self, cycle: Cycle, pod: Pod, pods: Mapping[int, ReprieveCandidates]
    ) -> Mapping[int, Sequence[bool]]:
        return self.handle.dry_runs.reprieve_pods(cycle, pod, {place: those.order for place, those in pods.items()})

    def _dry_run_node(
        self, cycle: Cycle, pod: Pod, node: NodeInfo, pods: ReprieveCandidates, reprieved: Sequence[bool] | None
    ) -> DryRunOutcome:
        if reprieved is not None:
            return candidate(pods, reprieved)
        with self.handle.dry_runs.open(cycle, pod, node.name) as run:
            return dry_run(run, pods, node)


def exhaust(steps: Steps[T]) -> T:
    """Run all steps and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            outcome: T = end.value
            return outcome


def _nodes_of_step(node_infos: Sequence[NodeInfo], places: NDArray[np.intp]) -> int:
    """Number of leading nodes for one step: at most BATCH_PODS pods together, at least one node."""
    total = 0
    for count, place in enumerate(places.tolist()):
        total += len(node_infos[place].pods)
        if total > BATCH_PODS:
            return max(1, count)
    return len(places)


def _may_help(status: Status | None) -> bool:
    """Return True if the node was rejected with a status that evictions can resolve."""
    return status is not None and status.code is Code.UNSCHEDULABLE


def _no_candidates(nodes: int, result: _DryRunResult) -> PreemptionSearch:
    if result.errors:
        return PreemptionSearch(Code.ERROR, f"preemption: {aggregate(result.errors)}")
    rejections = result.rejections
    rejections[NOT_HELPFUL] += nodes - rejections.total()
    tally = Counter({Status(Code.UNSCHEDULABLE, "", reasons): n for reasons, n in rejections.items() if n})
    return PreemptionSearch(Code.UNSCHEDULABLE, f"preemption: {Diagnosis(nodes, tally).filter_message}", "")


def _never_requeue(pod: Pod, event: ClusterEvent) -> QueueingHint:  # noqa: ARG001
    return QueueingHint.SKIP
