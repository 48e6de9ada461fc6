"""DefaultPreemption: evict pods of lower priority to make a pod schedulable.

A dry run removes the lower-priority pods of each candidate node and reprieves as many as possible; the node with the
least costly victims is nominated (kube-scheduler's defaultpreemption and its preemption framework).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

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
    Mask,
    NodeTable,
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
    found_placement,
)
from pyscheduler.api.steps import Steps, exhaust
from pyscheduler.intree._label_selectors import aggregate
from pyscheduler.intree._problems import invalid, raise_for_problems
from pyscheduler.intree.preemption.budgets import PDB, Budgets
from pyscheduler.intree.preemption.dry_run_result import Batch, DryRunResult
from pyscheduler.intree.preemption.losses import best
from pyscheduler.intree.preemption.potential_victims import PotentialVictimCache
from pyscheduler.intree.preemption.victims import dry_run, is_being_preempted, reprieve_candidates

NO_VICTIMS = ("No preemption victims found for incoming pod",)
NOT_HELPFUL = ("Preemption is not helpful for scheduling",)
SORTED_PODS = 1024
"""Maximum number of pods of which the potential victims are sorted in one step."""
BATCH_PODS = 1 << 16
"""Size of the matrix of potential victims in one step, at most."""
SPARE = 16
"""Number of nodes that are evaluated in addition to those needed."""
DRY_RUN_PODS = 64
"""Pods reprieved one by one in one step at most: each reprieve runs all Filter plugins again, up to 0.2 ms."""
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
class _LowerPriorityCount(PodCount):
    """Count of pods with a lower priority."""

    priority: int
    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return int(signature.priority < self.priority)


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
        self._budgets = Budgets(handle.objects[PDB])
        self._potential_victims = PotentialVictimCache()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # Deletions let PreEnqueue run again; the hints of the plugins that rejected the pod decide if one requeues it.
        return (ClusterEventWithHint(POD, Action.DELETE, _never_requeue),)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        return _WAITING if self.handle.evictions.is_preempting(pod.uid) else None

    def post_filter(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> Nominate | ClearNomination | Rejection:
        return exhaust(self.post_filter_steps(cycle, pod, diagnosis))

    def post_filter_steps(
        self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis
    ) -> Steps[Nominate | ClearNomination | Rejection]:
        reason = self._not_eligible(pod, diagnosis)
        if reason:
            return Rejection(f"preemption: {reason}")
        result = yield from self._dry_run(cycle, pod, diagnosis, exhaustive=False)
        if result.count:
            node_name, chosen = result.nominate()
            return Nominate(node_name, chosen.victims, found_placement(node_name, len(chosen.victims)))
        found = _no_candidates(diagnosis.total_nodes, result)
        if found.status is Code.ERROR:
            raise StatusError(found.message)
        return ClearNomination(Rejection(found.message))

    def violates_budgets(self, pods: Sequence[Pod]) -> Sequence[Pod]:
        self._budgets.refresh(self.handle.objects.version(PDB))
        return self._budgets.split(pods)[0] if self._budgets else ()

    def search(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis) -> PreemptionSearch:
        reason = self._not_eligible(pod, diagnosis)
        if reason:
            return PreemptionSearch(Code.UNSCHEDULABLE, f"preemption: {reason}")
        result = exhaust(self._dry_run(cycle, pod, diagnosis, exhaustive=True))
        if not result.count:
            return _no_candidates(diagnosis.total_nodes, result)
        ties, candidates = result.best(), result.candidates()
        message = found_placement(ties[0], len(candidates[ties[0]].victims))
        return PreemptionSearch(Code.SUCCESS, message, ties[0], candidates, ties)

    def choose(self, candidates: Mapping[str, Candidate]) -> str:
        return best(candidates)[0]

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

    def _dry_run(self, cycle: Cycle, pod: Pod, diagnosis: Diagnosis, exhaustive: bool) -> Steps[DryRunResult]:
        """Dry-run preemption on potential nodes, from a random offset on, until there are enough candidates."""
        self._budgets.refresh(self.handle.objects.version(PDB))
        nodes = self.handle.nodes.table()
        helpful = diagnosis.resolvable(nodes)
        total = int(np.count_nonzero(helpful))
        enough = total + 1 if exhaustive else self.args.num_candidates(total)
        result = DryRunResult(pod, self._budgets, enough)
        if not total:
            return result
        potential = np.flatnonzero(helpful & (nodes.count_pods(_LowerPriorityCount(pod.priority)) > 0))
        result.rejections[NO_VICTIMS] += total - len(potential)
        if not len(potential):  # frequent: in a full cluster of one priority each pending pod comes here
            return result
        start = cycle.rng().randrange(total)
        start = start if total == len(nodes) else int(np.flatnonzero(helpful)[start])
        first = int(np.searchsorted(potential, start))
        tried, done = 0, False
        while tried < len(potential) and not done:
            # As many as needed if candidates stay as frequent, and some more, so that there are few batches.
            wanted = enough - result.count if enough > result.count else max(1, tried)
            size = wanted * (tried + SPARE) // (result.count + SPARE) + SPARE
            rows = _circular(potential, first + tried, min(size, len(potential) - tried))
            statuses, undecided = self.handle.dry_runs.filter_without_lower_priority(cycle, pod, rows)
            fits = np.flatnonzero(statuses.codes == 0)[:wanted]
            if len(fits) == wanted:  # the nodes behind the last one are not needed if all these are candidates
                statuses.codes = statuses.codes[: fits[-1] + 1]
            tried += len(statuses.codes)
            result.reject(statuses)
            done = yield from self._dry_run_nodes(cycle, nodes, rows[fits], undecided[fits], result)
        self._potential_victims.drop_large()
        return result

    def _dry_run_nodes(
        self,
        cycle: Cycle,
        nodes: NodeTable,
        rows: NDArray[np.intp],
        undecided: Mask,
        result: DryRunResult,
    ) -> Steps[bool]:
        """Dry-run preemption on nodes that fit the pod without their pods of lower priority.

        Pauses after each step. Returns True if there are enough candidates then.
        """
        columns = self._potential_victims.of(result.pod.priority, len(nodes))
        for step, outdated in enumerate(_split(columns.outdated(nodes, rows[~undecided]).tolist(), nodes)):
            if step:
                yield
            columns.refresh(nodes, outdated)
        counts = np.where(undecided, 0, columns.counts(rows))
        while len(rows):
            n = _nodes_of_step(counts)
            victims = columns.victims(nodes, rows[:n], counts[:n], self._budgets)
            reprieve = self.handle.dry_runs.reprieve_pods(cycle, result.pod, victims.potential)
            needs_dry_run = reprieve.needs_dry_run | undecided[:n]
            batch = result.batch(nodes, victims, reprieve.stays, needs_dry_run)
            yield from self._dry_run_one_by_one(cycle, batch, needs_dry_run, result)
            if result.add(batch):
                return True
            rows, undecided, counts = rows[n:], undecided[n:], counts[n:]
            yield
        return False

    def _dry_run_one_by_one(self, cycle: Cycle, batch: Batch, needs_dry_run: Mask, result: DryRunResult) -> Steps[None]:
        """Dry-run preemption on some nodes of a batch one by one, while more candidates are needed."""
        filter_runs = 0
        for j in np.flatnonzero(needs_dry_run).tolist():
            if result.has_enough(batch, j):
                return
            node = batch.node(j)
            pods = reprieve_candidates(result.pod, node, self._budgets)
            filter_runs += 1 + len(pods.order)
            if filter_runs > DRY_RUN_PODS:
                filter_runs = 0
                yield
            with self.handle.dry_runs.open(cycle, result.pod, node.name) as run:
                batch.record(j, dry_run(run, pods, node))


def _circular(rows: NDArray[np.intp], begin: int, n: int) -> NDArray[np.intp]:
    """Return `n` rows from an index on; the first row follows the last one."""
    return rows.take(np.arange(begin, begin + n), mode="wrap")


def _split(rows: Sequence[int], nodes: NodeTable) -> Iterator[Sequence[int]]:
    """Split rows so that the nodes of each part have at most SORTED_PODS pods together; at least one node each."""
    begin = pods = 0
    for end, row in enumerate(rows):
        pods += len(nodes[row].pods)
        if pods > SORTED_PODS and end > begin:
            yield rows[begin:end]
            begin, pods = end, len(nodes[row].pods)
    if begin < len(rows):
        yield rows[begin:]


def _nodes_of_step(counts: NDArray[np.intp]) -> int:
    """Number of leading nodes with a matrix of potential victims of at most BATCH_PODS; at least one node."""
    if len(counts) * int(counts.max(initial=0)) <= BATCH_PODS:
        return len(counts)
    sizes = np.maximum.accumulate(counts) * np.arange(1, len(counts) + 1)
    return max(1, int(np.searchsorted(sizes, BATCH_PODS, side="right")))


def _may_help(status: Status | None) -> bool:
    """Return True if the node was rejected with a status that evictions can resolve."""
    return status is not None and status.code is Code.UNSCHEDULABLE


def _no_candidates(nodes: int, result: DryRunResult) -> PreemptionSearch:
    if result.errors:
        return PreemptionSearch(Code.ERROR, f"preemption: {aggregate(result.errors)}")
    rejections = result.rejections
    rejections[NOT_HELPFUL] += nodes - rejections.total()
    tally = Counter({Status(Code.UNSCHEDULABLE, "", reasons): n for reasons, n in rejections.items() if n})
    return PreemptionSearch(Code.UNSCHEDULABLE, f"preemption: {Diagnosis(nodes, tally).filter_message}", "")


def _never_requeue(pod: Pod, event: ClusterEvent) -> QueueingHint:  # noqa: ARG001
    return QueueingHint.SKIP
