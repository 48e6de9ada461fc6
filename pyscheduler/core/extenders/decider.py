"""Node selection with extenders: kube-scheduler's schedulePod with its extender calls.

After Filter the extenders run one after the other, each on the nodes that the previous one returned; after Score they
run concurrently. Results refer to node names: a node that was deleted or no longer fits when a response arrives is
dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Status
from pyscheduler.core.extenders.calls import ExtenderSession, ExtenderSteps
from pyscheduler.core.extenders.extender import (
    EXTENDER,
    ExtenderCallFailed,
    ExtenderFailed,
    ExtenderFilterResult,
    ExtenderPrioritizeResult,
    FilterCall,
    PrioritizeCall,
)
from pyscheduler.core.framework.plugin_failure import PluginFailed
from pyscheduler.core.instrument import SUCCESS
from pyscheduler.core.scheduling.decider import NO_NODES, Choice, Decider
from pyscheduler.core.scheduling.feasible_nodes import FeasibleNodes, NominatedNode, diagnose
from pyscheduler.core.scheduling.prefilter import PreFilterResult
from pyscheduler.core.state.node import NodeRow

SCALE = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""
_MAX_ADDED = 1 << 60
"""Bound on the score that extenders add to a node, so that totals stay within int64."""


class _FilterRound(msgspec.Struct):
    """Plugin results of one step; `found` is None if PreFilter rejected the pod."""

    cycle: Cycle
    pre: PreFilterResult
    found: FeasibleNodes | None = None
    nominated: NominatedNode | None = None


class ExtenderDecider(Decider):
    """Select nodes for the pods of one profile, calling extenders for the pods that they are interested in."""

    def decide_with_extenders(self, session: ExtenderSession) -> ExtenderSteps[Choice | Diagnosis]:
        """Return a node for the pod, or a diagnosis if no node fits.

        PluginFailed if a plugin raises, ExtenderFailed if an extender that is not ignorable fails.
        """
        self._order.begin()
        try:
            rejections: dict[str, Status] = {}
            chosen = yield from self._nominated(session, rejections)
            return chosen if chosen is not None else (yield from self._choose_from_all(session, rejections))
        except PluginFailed:
            self._drop_cache(session.pod)
            raise

    def _nominated(self, session: ExtenderSession, rejections: dict[str, Status]) -> ExtenderSteps[Choice | None]:
        """Return the pod's nominated node if it fits and no extender rejects it.

        Rejections by extenders are added to `rejections`; they stand if PreFilter excludes the node from the search.
        """
        name = self._finder.nominated_node(session.pod)
        if not name or not _fits(self._filter(session).nominated):
            return None
        try:
            returned = yield from self._call_filters(session, [name], rejections)
        except ExtenderFailed:
            return None  # the search that follows calls the extender again and reports its error
        nominated = self._filter(session).nominated
        if nominated is None or nominated.rejection is not None or not returned:
            return None
        return Choice(nominated.node, 1)

    def _choose_from_all(
        self, session: ExtenderSession, rejections: dict[str, Status]
    ) -> ExtenderSteps[Choice | Diagnosis]:
        """Return the best node among those that pass all plugins and extenders."""
        scores: Mapping[str, int] = {}
        step = self._filter(session)
        returned = yield from self._call_filters(session, self._feasible_names(step), rejections)
        step = step if step.cycle is session.cycle else self._filter(session)
        nodes = self._feasible_nodes(step, returned)
        if len(nodes) > 1:
            scores = yield from self._scores(session, [node.name for node in nodes])
            if step.cycle is not session.cycle:
                step = self._filter(session)
                nodes = self._feasible_nodes(step, returned)
        if not nodes:
            return self._diagnose(step, rejections)
        return Choice(nodes[0] if len(nodes) == 1 else self._select_host(session, nodes, scores), len(nodes))

    def _filter(self, session: ExtenderSession) -> _FilterRound:
        """Run PreFilter and Filter on the current cluster state; cached results make this cheap."""
        pod, cycle, finder = session.pod, session.cycle, self._finder
        if not self._state.rows:
            return _FilterRound(cycle, PreFilterResult(rejection=NO_NODES))
        cache = self._cache_for(pod)
        self._points.pre_filter.enter()
        pre = finder.pre_filter(cycle, pod, cache)
        if pre.rejection is not None:
            self._points.pre_filter.leave(pre.rejection.code.camel)
            return _FilterRound(cycle, pre)
        self._points.pre_filter.leave()
        nominated = finder.evaluate_nominated_node(cycle, pod, pre)
        self._points.filter.enter()
        if pre.names is None:
            found = finder.filter_all(cycle, pod, pre, cache)
        else:
            found = finder.filter_named(cycle, pod, pre, pre.names, nominated)
        self._points.filter.leave(SUCCESS if found.fits.any() else Code.UNSCHEDULABLE.camel)
        return _FilterRound(cycle, pre, found, nominated)

    def _feasible_names(self, step: _FilterRound) -> list[str]:
        """Return the names of the feasible nodes of the sample, in the profile's search order."""
        if step.found is None:
            return []
        nominated = step.nominated.node.row if step.nominated is not None and not _fits(step.nominated) else None
        rows = self._order.visit(step.found, nominated)
        return [self._state.rows[row].name for row in (np.flatnonzero(step.found.fits) if rows is None else rows)]

    def _feasible_nodes(self, step: _FilterRound, names: Sequence[str]) -> list[NodeRow]:
        """Return those of the nodes that exist and fit."""
        if step.found is None or not names:
            return []
        nodes = [node for name in names if (node := self._state.info(name)) is not None]
        fits = step.found.fits[[node.row for node in nodes]].tolist()
        return [node for node, fitting in zip(nodes, fits, strict=True) if fitting]

    def _call_filters(
        self, session: ExtenderSession, names: Sequence[str], rejections: dict[str, Status]
    ) -> ExtenderSteps[Sequence[str]]:
        """Return the nodes that the filtering extenders keep; add the rejections of the others to `rejections`."""
        for extender in session.extenders:
            if not extender.filters or not names:
                continue
            (answer,) = yield from session.call(FilterCall(extender, tuple(names)))
            if isinstance(answer, ExtenderFilterResult):
                rejections.update(_rejections(names, answer))
                names = tuple(dict.fromkeys(answer.nodes))
            elif not extender.ignorable:
                raise ExtenderFailed(answer.message if isinstance(answer, ExtenderCallFailed) else "no answer")
        return names

    def _scores(self, session: ExtenderSession, names: Sequence[str]) -> ExtenderSteps[Mapping[str, int]]:
        """Return what extenders add to each node's total. Failed calls add nothing, whether ignorable or not."""
        calls = [PrioritizeCall(extender, tuple(names)) for extender in session.extenders if extender.prioritizes]
        scores: dict[str, int] = {}
        if len(calls) < len(session.extenders):
            # An extender without prioritize gives each node 0, so ties are broken pseudo-randomly for all of them.
            scores = dict.fromkeys(names, 0)
        if not calls:
            return scores
        answers = yield from session.call(*calls)
        for call, answer in zip(calls, answers, strict=True):
            for name, score in answer.scores if isinstance(answer, ExtenderPrioritizeResult) else ():
                scores[name] = scores.get(name, 0) + score * call.extender.weight * SCALE
        return {name: max(-_MAX_ADDED, min(score, _MAX_ADDED)) for name, score in scores.items()}

    def _select_host(self, session: ExtenderSession, nodes: Sequence[NodeRow], scores: Mapping[str, int]) -> NodeRow:
        """Return the node with the best total.

        Ties are broken pseudo-randomly among the nodes that extenders scored, or by the search order if there are none.
        """
        totals = self._totals(session.cycle, session.pod, nodes)
        totals += np.fromiter((scores.get(node.name, 0) for node in nodes), np.int64, len(nodes))
        best = np.flatnonzero(totals == totals.max()).tolist()
        candidates = [place for place in best if nodes[place].name in scores]
        if candidates:
            return nodes[candidates[session.cycle.random_bits() % len(candidates)]]
        return nodes[self._order.pick(totals, session.cycle)]

    def _diagnose(self, step: _FilterRound, rejections: Mapping[str, Status]) -> Diagnosis:
        """Return the diagnosis; an extender's rejection counts where no plugin rejects the node."""
        found = step.found
        if found is None:
            return diagnose(self._state, step.pre)
        rows = {node.row: status for name, status in rejections.items() if (node := self._state.info(name)) is not None}
        rejected = {row: status for row, status in rows.items() if found.status(row) in (None, found.outside)}
        fits = found.fits.copy()
        fits[list(rejected)] = False
        return diagnose(self._state, step.pre, replace(found, fits=fits, rejections={**found.rejections, **rejected}))


def _fits(nominated: NominatedNode | None) -> bool:
    return nominated is not None and nominated.rejection is None


def _rejections(names: Sequence[str], answer: ExtenderFilterResult) -> Iterator[tuple[str, Status]]:
    """Yield the status of each node that the extender did not return.

    Nodes that it did not mention are unresolvable: they are not considered for preemption, as in kube-scheduler.
    """
    returned = frozenset(answer.nodes)
    for name in names:
        if name in returned:
            continue
        if name in answer.unresolvable:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER, (answer.unresolvable[name],))
        elif name in answer.failed:
            yield name, Status(Code.UNSCHEDULABLE, EXTENDER, (answer.failed[name],))
        else:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER)
