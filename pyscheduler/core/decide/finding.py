"""Which nodes a pod fits: kube-scheduler's findNodesThatFitPod, asked of every node.

PreFilter looks at the pod, then Filter at each node, twice where others are nominated to it: with them and without. The
answers come from an `Evaluation`, which keeps them for the next pod of the shape; where PreFilter narrows the nodes
down to a few, these are asked directly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask
from pyscheduler.api.outcome import Code, Status, StatusError
from pyscheduler.api.pod import Pod
from pyscheduler.core.decide.direct import filter_node, fits_with, refused_rows
from pyscheduler.core.decide.evaluation import Evaluation
from pyscheduler.core.decide.filtering import are_few
from pyscheduler.core.decide.prefilter import PreFiltered, run_pre_filter
from pyscheduler.core.framework.failure import PluginFailed
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.node import NodeRow
from pyscheduler.kernels import Rows


@dataclass(slots=True)
class Found:
    """What Filter said of every node."""

    fits: Mask
    """Per row of the state."""
    among: Rows | None
    """The rows that were looked at, in ascending order; None for all of them."""
    refused: Mapping[int, Status]
    """What was said directly, by row: it goes before what the evaluation keeps."""
    outside: Status | None = None
    """What rows that were not looked at are told."""
    kept: Evaluation | None = None
    """Where the other answers are, if all nodes were asked: `fits` is what it holds feasible, so its totals serve."""

    def status(self, row: int) -> Status | None:
        """Why the pod does not fit a row; None if it does."""
        if row in self.refused:
            return self.refused[row]
        if self.kept is not None:
            return self.kept.filters.status(row)
        return None if self.fits[row] else self.outside

    def codes(self) -> NDArray[np.int64]:
        """The code of every row's status: SUCCESS where the pod fits."""
        if self.kept is not None:
            codes = self.kept.filters.status_codes(len(self.fits))
        else:
            outside = Code.SUCCESS if self.outside is None else self.outside.code
            codes = np.where(self.fits, Code.SUCCESS, outside).astype(np.int64)
        for row, status in self.refused.items():
            codes[row] = status.code
        return codes

    def tally(self, nodes: int) -> Counter[Status]:
        """How many of the nodes were refused with each status."""
        if self.kept is None:
            tally = Counter(self.refused.values())
            if self.outside is not None:
                tally[self.outside] += nodes - int(np.count_nonzero(self.fits)) - len(self.refused)
            return +tally
        filters = self.kept.filters
        tally = filters.tally(nodes)
        tally.update(self.refused.values())
        tally.subtract(own for row in self.refused if (own := filters.status(row)) is not None)
        return +tally


@dataclass(frozen=True, slots=True)
class Nominated:
    """The node that an earlier attempt made room on, and what keeps the pod off it now: nothing, if all went well."""

    node: NodeRow
    refusal: Status | None


class Finder:
    """Asks the PreFilter and Filter plugins of one profile."""

    def __init__(self, profile: Profile, state: ClusterState, nominator: Nominator) -> None:
        self._profile = profile
        self._state = state
        self._nominator = nominator

    def pre_filter(self, cycle: Cycle, pod: Pod, evaluation: Evaluation) -> PreFiltered:
        """Ask the PreFilter plugins. PluginFailed if one raises."""
        kept, asked = evaluation.begin(pod.shape), self._profile.evaluations.pre_filter
        return run_pre_filter(self._profile.pre_filter, cycle, pod, self._state.table(), kept, asked)

    def promised(self, pod: Pod) -> str:
        """The node that an earlier attempt made room on for the pod, "" if none did."""
        return self._nominator.promised(pod)

    def nominated(self, cycle: Cycle, pod: Pod, pre: PreFiltered) -> Nominated | None:
        """Run Filter on the pod's nominated node, if it has one, before any other and whatever PreFilter left.

        An error is no result, as in kube-scheduler: the search that follows runs into it again if the node counts.
        """
        name = self.promised(pod)
        node = self._state.info(name) if name else None
        if node is None:
            return None
        try:
            return Nominated(node, self._refusal(cycle, pod, node, pre))
        except PluginFailed as failed:
            if isinstance(failed.error, StatusError):
                return None
            raise

    def everywhere(self, cycle: Cycle, pod: Pod, pre: PreFiltered, evaluation: Evaluation, told: bool = False) -> Found:
        """Ask Filter of every node, where no PreFilter plugin has named some.

        `told`: the reasons matter even if some node fits. Kube-scheduler asks first with the nominated pods, so it is
        that answer which is told of a node; while a node is still to be chosen, only nodes that fit are asked so.
        """
        try:
            evaluation.refresh_filters(cycle, pod, pre.skipped)
        except PluginFailed as failed:
            nominated = any(self._nominator.rivals(pod, node.name) for node in self._state.rows)
            if not isinstance(failed.error, StatusError) or not nominated:
                raise
            return self._one_by_one(cycle, pod, pre)
        displaced = self._displaced(cycle, pod, evaluation)
        left = evaluation.withhold(displaced.keys())
        if told or not left:
            displaced = self._displaced(cycle, pod, evaluation, full_as_well=True)
        return Found(evaluation.feasible[: len(self._state.rows)], None, displaced, kept=evaluation)

    def among(
        self, cycle: Cycle, pod: Pod, pre: PreFiltered, names: frozenset[str], nominated: Nominated | None
    ) -> Found:
        """Ask Filter of the few nodes that PreFilter left. What was said of the nominated node stands."""
        # Row order, not set order: the same events must give the same choice.
        nodes = sorted((n for name in names if (n := self._state.info(name)) is not None), key=lambda n: n.row)
        fits = np.zeros(len(self._state), np.bool_)
        before = nominated.refusal if nominated else None
        refused: dict[int, Status] = {nominated.node.row: before} if nominated and before else {}
        rows = np.fromiter((node.row for node in nodes), np.intp, len(nodes))
        fits[rows] = True
        if are_few(rows):
            alone = nodes
        else:
            # A pod may name thousands of nodes; those with nominated pods are evaluated with them first.
            alone = [node for node in nodes if self._nominator.rivals(pod, node.name)]
            refused |= refused_rows(self._profile, self._state, cycle, pod, rows, pre.skipped)
        for node in alone:
            status = self._refusal(cycle, pod, node, pre)
            if status is not None:
                refused[node.row] = status
        fits[[*refused]] = False
        return Found(fits, rows, refused, pre.outside_status(before))

    def _one_by_one(self, cycle: Cycle, pod: Pod, pre: PreFiltered) -> Found:
        """Filter each node with its nominated pods first: they may refuse the pod before a plugin meets an error."""
        nodes = self._state.rows
        refused = {node.row: status for node in nodes if (status := self._refusal(cycle, pod, node, pre)) is not None}
        fits = np.ones(len(nodes), np.bool_)
        fits[[*refused]] = False
        return Found(fits, np.arange(len(nodes)), refused)

    def _refusal(self, cycle: Cycle, pod: Pod, node: NodeRow, pre: PreFiltered) -> Status | None:
        others = self._nominator.rivals(pod, node.name)
        if others:
            status = fits_with(self._profile, cycle, pod, node, others)
            if status is not None:
                return status
        return filter_node(self._profile, cycle, pod, node, pre.skipped)

    def _displaced(
        self, cycle: Cycle, pod: Pod, evaluation: Evaluation, full_as_well: bool = False
    ) -> dict[int, Status]:
        """The rows where the pod would take the place of a nominated one of its priority or above.

        Of those that it fits without them; `full_as_well`: of all.
        """
        displaced = {}
        for name in self._nominator.nodes():
            node = self._state.info(name)
            if node is None or not (full_as_well or evaluation.fits(node.row)):
                continue
            status = self._beside(cycle, pod, node, evaluation)
            if status is not None:
                displaced[node.row] = status
        return displaced

    def _beside(self, cycle: Cycle, pod: Pod, node: NodeRow, evaluation: Evaluation) -> Status | None:
        """What is in the way if its nominated pods run there too: kept while the answer rests on that node and them."""
        name = node.name
        at = (node.version, self._nominator.rivals_version(pod, name)) if evaluation.filters.rest else None
        known = evaluation.beside.get(name)
        if at is None or known is None or known[0] != at:
            others = self._nominator.rivals(pod, name)
            status = fits_with(self._profile, cycle, pod, node, others) if others else None
            known = evaluation.beside[name] = (at, status)
        return known[1]


def diagnose(state: ClusterState, pre: PreFiltered, found: Found | None = None) -> Diagnosis:
    """Why no node fits: what PreFilter said if it rejected the pod, else what Filter did."""
    if found is None:
        return _rejected(state, pre, pre.rejection)
    tally = found.tally(len(state))
    pending = {s.plugin for s in tally if s.code is Code.PENDING}

    def status_of(name: str) -> Status | None:
        node = state.info(name)
        return found.outside if node is None else found.status(node.row)

    plugins = {s.plugin for s in tally} | set(pre.restricted_by)
    return Diagnosis(
        len(state),
        tally,
        status_of,
        found.codes,
        unschedulable_plugins=plugins - pending - {""},
        pending_plugins=pending,
    )


def _rejected(state: ClusterState, pre: PreFiltered, status: Status | None) -> Diagnosis:
    assert status is not None, "neither PreFilter nor Filter has refused the pod"
    pending = {status.plugin} if status.code is Code.PENDING else set()
    return Diagnosis(
        len(state),
        status_of=lambda _: status,
        pre_filter=status,
        unschedulable_plugins={status.plugin, *pre.restricted_by} - pending - {""},
        pending_plugins=pending,
    )
