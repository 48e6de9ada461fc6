"""Candidates that a search has found so far, with their losses in columns; victims are listed for chosen nodes only."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Candidate, Code, Mask, NodeInfo, NodeTable, NodeToStatus, Pod, Status
from pyscheduler.intree.preemption.budgets import Budgets
from pyscheduler.intree.preemption.losses import Losses, least, loss, losses_of
from pyscheduler.intree.preemption.potential_victims import VictimMatrix
from pyscheduler.intree.preemption.victims import candidate, reprieve_candidates


@dataclass(slots=True, eq=False)
class Batch:
    """Dry runs on some nodes, in the order of the search."""

    nodes: NodeTable
    """All nodes of the cluster."""
    rows: NDArray[np.intp]
    """Indexes of the dry-run nodes among them; in the following, node `j` is that of `rows[j]`."""
    losses: Losses
    stays: NDArray[np.bool_]
    """`stays[i, j]` is True if pod `i` of node `j`, in the order of the reprieve, is reprieved."""
    candidates: dict[int, Candidate] = field(default_factory=dict)
    """Candidates found by a dry run on their node alone, by index."""
    failures: dict[int, Status] = field(default_factory=dict)
    """Reasons why nodes are no candidates, by index."""

    def node(self, j: int) -> NodeInfo:
        """Return node `j`."""
        return self.nodes[int(self.rows[j])]

    def record(self, j: int, outcome: Candidate | Status) -> None:
        """Record the outcome of a dry run on node `j`."""
        if isinstance(outcome, Status):
            self.failures[j] = outcome
        elif not outcome.victims:
            message = f'expected at least one victim pod on node "{self.node(j).name}"'
            self.failures[j] = Status(Code.ERROR, "", (message,))
        else:
            self.candidates[j] = outcome
            self.losses[j] = loss(outcome)

    def candidate(self, pod: Pod, j: int, budgets: Budgets) -> Candidate:
        """Return the candidate with index `j`."""
        if j in self.candidates:
            return self.candidates[j]
        pods = reprieve_candidates(pod, self.node(j), budgets)
        return candidate(pods, self.stays[: len(pods.order), j].tolist())


@dataclass(slots=True)
class DryRunResult:
    """Collected outcomes of the dry runs."""

    pod: Pod
    _budgets: Budgets
    _needed: int
    """Number of candidates that are enough."""
    rejections: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Number of nodes without a candidate, by reasons."""
    errors: list[str] = field(default_factory=list)
    count: int = 0
    """Number of candidates."""
    _without_violation: int = 0
    """Number of candidates without a victim that violates a PodDisruptionBudget."""
    _batches: list[Batch] = field(default_factory=list)

    def reject(self, statuses: NodeToStatus) -> None:
        """Count the nodes that even without their pods of lower priority reject the pod."""
        if not statuses.rejections:
            return
        counts = np.bincount(statuses.codes, minlength=len(statuses.rejections) + 1).tolist()
        for rejection, count in zip(statuses.rejections, counts[1:], strict=True):
            self.rejections[rejection.reasons] += count

    def batch(self, nodes: NodeTable, victims: VictimMatrix, stays: NDArray[np.bool_], needs_dry_run: Mask) -> Batch:
        """Return a batch with the outcomes of the nodes that need no dry run of their own."""
        losses = losses_of(victims.potential.pods, stays, victims.violating, victims.started, victims.priorities)
        losses[needs_dry_run] = math.inf
        batch = Batch(nodes, victims.potential.rows, losses, stays)
        for j in np.flatnonzero((losses[:, 0] == math.inf) & ~needs_dry_run).tolist():
            batch.record(j, Candidate(()))
        return batch

    def has_enough(self, batch: Batch, n: int) -> bool:
        """Return True if with the first `n` nodes of a batch there are enough candidates."""
        return len(self._enough(batch.losses[:n])) > 0

    def add(self, batch: Batch) -> bool:
        """Add a batch up to the node with which there are enough candidates. Return True if there are."""
        end = self._enough(batch.losses)[:1] + 1
        if len(end):
            batch.losses = batch.losses[: end[0]]
        self.count += int(np.count_nonzero(batch.losses[:, 0] < math.inf))
        self._without_violation += int(np.count_nonzero(batch.losses[:, 0] == 0))
        self._batches.append(batch)
        for _, status in sorted(batch.failures.items()):
            if status.code is Code.ERROR:
                self.errors += status.reasons
            else:
                self.rejections[status.reasons] += 1
        return len(end) > 0

    def _enough(self, losses: Losses) -> NDArray[np.intp]:
        """Return the indexes at which there are enough candidates, at least one without violations."""
        violations = losses[:, 0]
        count = self.count + np.cumsum(violations < math.inf)
        without_violation = self._without_violation + np.cumsum(violations == 0)
        return np.flatnonzero((count >= self._needed) & (without_violation > 0))

    def candidates(self) -> dict[str, Candidate]:
        """Return all candidates by node name."""
        return {
            batch.node(j).name: batch.candidate(self.pod, j, self._budgets)
            for batch in self._batches
            for j in np.flatnonzero(batch.losses[:, 0] < math.inf).tolist()
        }

    def best(self) -> tuple[str, ...]:
        """Return the names of the equally good nodes, in the order of the search."""
        return tuple(batch.node(j).name for batch, j in map(self._place, self._least().tolist()))

    def nominate(self) -> tuple[str, Candidate]:
        """Return the first of the best nodes, with its victims."""
        batch, j = self._place(int(self._least()[0]))
        return batch.node(j).name, batch.candidate(self.pod, j, self._budgets)

    def _least(self) -> NDArray[np.intp]:
        """Return the positions of the best nodes in the search."""
        losses = [batch.losses for batch in self._batches]
        return least(losses[0] if len(losses) == 1 else np.concatenate(losses))

    def _place(self, position: int) -> tuple[Batch, int]:
        """Return the batch of a position in the search, and the index there."""
        for batch in self._batches:
            if position < len(batch.losses):
                return batch, position
            position -= len(batch.losses)
        raise IndexError(position)
