"""DefaultPreemption: a pod that fits nowhere may take the place of pods of a lower priority.

Each node that could fit the pod without some of its pods is tried out, and the one where the least is lost is nominated
(kube-scheduler's defaultpreemption and its preemption framework).
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
"""Nodes that are looked at in one step, fewer where they have many pods."""
BATCH_PODS = 1024
DRY_RUN_PODS = 64
"""Pods that are put back in trials in one step: each time all plugins filter again, which takes up to 0.2 ms."""
Steps = Generator[None, None, T]
FEW = 8
"""Up to so many nodes are tried one after the other: to look at all of them at once would take longer."""
_WAITING = Rejection("waiting for the preemption for this pod to be finished", resolvable=False)
_NEVER = "not eligible due to preemptionPolicy=Never."
_TERMINATING_VICTIMS = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class DefaultPreemptionArgs:
    """kubescheduler.config.k8s.io/v1 DefaultPreemptionArgs.

    So many candidates are enough, the larger of the two: a percentage of the nodes that could help, and a number.
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
        """How many candidates are enough where so many nodes could help."""
        return min(nodes, max(nodes * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute))


@dataclass(frozen=True, slots=True)
class _Below(PodCount):
    """Counts the pods of a lower priority."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority)


@dataclass(slots=True)
class _DryRunResult:
    """What trying out nodes has shown."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    refusals: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """How many nodes stay as they are, by the reasons."""
    errors: list[str] = field(default_factory=list)
    violating: int = 0
    losses: dict[str, Loss] = field(default_factory=dict)
    """Of the candidates."""

    def record(self, name: str, outcome: DryRunOutcome) -> None:
        if isinstance(outcome, Status) and outcome.code is Code.ERROR:
            self.errors += outcome.reasons
        elif isinstance(outcome, Status):
            self.refusals[outcome.reasons] += 1
        elif not outcome.victims:
            self.errors.append(f'expected at least one victim pod on node "{name}"')
        else:
            self.candidates[name] = outcome
            self.losses[name] = loss(outcome)
            self.violating += outcome.pdb_violations > 0

    def has_enough(self, enough: int) -> bool:
        """Whether there are enough candidates, one of them within all budgets."""
        return len(self.candidates) >= enough and len(self.candidates) > self.violating


class DefaultPreemption(PreemptionPlugin, PreEnqueuePlugin):
    """Nominates the node that loses the least, and asks for its victims to be evicted."""

    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    watches = (PDB,)

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._dry_run_cache = DryRunCache()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Those that PreEnqueue holds back are asked about again; whether a deletion helps is for others to say.
        return (ClusterEventWithHint(POD, Action.DELETE, _never_requeue),)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return _WAITING if self.handle.is_preempting(pod.uid) else None

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
        tried = yield from self._dry_run(cycle, pod, diagnosis, exhaustive)
        if not tried.candidates:
            return _no_candidates(diagnosis.total_nodes, tried)
        ties = least(tried.losses)
        return PreemptionSearch(Code.SUCCESS, "", ties[0], tried.candidates, ties)

    def _not_eligible(self, pod: Pod, diagnosis: Diagnosis) -> str:
        if pod.spec.preemption_policy == "Never":
            return _NEVER
        # Not the pod's status: what an earlier attempt has promised it may not have been written yet.
        nominated = self.handle.nominated_node(pod)
        if not nominated or not _may_help(diagnosis.status_of(nominated)):
            return ""
        node = next((n for n in self.handle.nodes() if n.name == nominated), None)
        pods = node.pods.values() if node else ()
        return _TERMINATING_VICTIMS if any(p.priority < pod.priority and is_being_preempted(p) for p in pods) else ""

    def _dry_run(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, exhaustive: bool) -> Steps[_DryRunResult]:
        """Make room on one node after the other, from a random one on, until there are enough candidates."""
        tried, nodes = _DryRunResult(), self.handle.nodes()
        helpful = diagnosis.resolvable(nodes)
        total = int(np.count_nonzero(helpful))
        if not total:
            return tried
        start = cycle.rng().randrange(total)
        lower = nodes.count_pods(_Below(pod.priority)) > 0
        if not (helpful & lower).any():  # as in a cluster of one priority that is full: each pod that waits comes here
            tried.refusals[NO_VICTIMS] += total
            return tried
        infeasible = self.handle.filter_without_lower_priority(cycle, pod, pod.priority)
        places = np.flatnonzero(helpful)
        places = np.concatenate((places[start:], places[:start]))
        worth_trying = places[lower[places] & (infeasible.codes[places] == 0)]
        enough = total + 1 if exhaustive else self.args.num_candidates(total)
        infos = list(nodes)
        while worth_trying.size:
            yield
            # Many at once, and no more than will do if each is a candidate.
            missing = enough - len(tried.candidates)
            most = min(missing if missing > 0 else max(1, enough), BATCH)
            batch, worth_trying = np.split(worth_trying, [_within_step(infos, worth_trying[:most])])
            for found in self._outcomes(cycle, pod, {place: infos[place] for place in batch.tolist()}):
                if found is None:
                    yield
                    continue
                tried.record(*found)
                if tried.has_enough(enough):
                    return tried
        tried.refusals[NO_VICTIMS] += int(np.count_nonzero(helpful & ~lower))
        counts = np.bincount(infeasible.codes[helpful & lower], minlength=len(infeasible.rejections) + 1)
        for rejection, count in zip(infeasible.rejections, counts[1:].tolist(), strict=True):
            tried.refusals[rejection.reasons] += count
        return tried

    def _outcomes(
        self, cycle: Cycle, pod: Pod, nodes: Mapping[int, NodeInfo]
    ) -> Iterator[tuple[str, DryRunOutcome] | None]:
        """Outcomes of the dry run on some nodes, in their order; `nodes` by their places. None where a step ends."""
        known = self._dry_run_cache.of(pod.signature.template, self.handle.objects_version(PDB))
        depends_on = {place: self.handle.dry_run_cache_key(cycle, pod, node) for place, node in nodes.items()}
        untried = {place: node for place, node in nodes.items() if not known.is_current(node.name, depends_on[place])}
        budgets = Budgets(self.handle.objects(PDB))
        pods = {place: reprieve_candidates(pod, node, budgets) for place, node in untried.items()}
        yield None
        stay = self._reprieve_in_batch(cycle, pod, pods) if len(pods) > FEW else {}
        yield None
        trials = 0
        for place, node in nodes.items():
            if place in untried:
                if place not in stay:
                    trials += 1 + len(pods[place].order)
                    if trials > DRY_RUN_PODS:
                        trials = 0
                        yield None
                outcome = self._dry_run_node(cycle, pod, node, pods[place], stay.get(place))
                known.store(node.name, depends_on[place], outcome)
                yield node.name, outcome
            else:
                yield node.name, known.outcome(node.name)

    def _reprieve_in_batch(
        self, cycle: Cycle, pod: Pod, pods: Mapping[int, ReprieveCandidates]
    ) -> Mapping[int, Sequence[bool]]:
        return self.handle.reprieve_pods(cycle, pod, {place: those.order for place, those in pods.items()})

    def _dry_run_node(
        self, cycle: Cycle, pod: Pod, node: NodeInfo, pods: ReprieveCandidates, stay: Sequence[bool] | None
    ) -> DryRunOutcome:
        if stay is not None:
            return candidate(pods, stay)
        with self.handle.dry_run(cycle, pod, node.name) as trial:
            return dry_run(trial, pods, node)


def exhaust(steps: Steps[T]) -> T:
    """Make all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer


def _within_step(infos: Sequence[NodeInfo], places: NDArray[np.intp]) -> int:
    """Number of leading nodes with no more pods together than one step should look at, at least one."""
    total = 0
    for count, place in enumerate(places.tolist()):
        total += len(infos[place].pods)
        if total > BATCH_PODS:
            return max(1, count)
    return len(places)


def _may_help(status: Status | None) -> bool:
    """Whether a node that said so may fit the pod once others have left it."""
    return status is not None and status.code is Code.UNSCHEDULABLE


def _no_candidates(nodes: int, tried: _DryRunResult) -> PreemptionSearch:
    if tried.errors:
        return PreemptionSearch(Code.ERROR, f"preemption: {aggregate(tried.errors)}")
    refusals = tried.refusals
    refusals[NOT_HELPFUL] += nodes - refusals.total()
    tally = Counter({Status(Code.UNSCHEDULABLE, "", reasons): n for reasons, n in refusals.items() if n})
    return PreemptionSearch(Code.UNSCHEDULABLE, f"preemption: {Diagnosis(nodes, tally).filter_message}", "")


def _never_requeue(pod: Pod, event: ClusterEvent) -> QueueingHint:  # noqa: ARG001
    return QueueingHint.SKIP
