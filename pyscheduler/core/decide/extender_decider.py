"""Choosing a node where extenders have a say: kube-scheduler's schedulePod with its calls to them.

After Filter the extenders are asked in turn, each of what the ones before have kept; after Score together. What they
say holds for names: a node that is gone when an answer comes, or no longer fits, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from pyscheduler.api.cycle import Cycle
from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.outcome import Code, Status
from pyscheduler.core.decide.decider import NO_NODES, Choice, Decider
from pyscheduler.core.decide.extender_calls import ExtenderSession, ExtenderSteps
from pyscheduler.core.decide.feasible_nodes import FeasibleNodes, NominatedNode, diagnose
from pyscheduler.core.decide.prefilter import PreFilterResult
from pyscheduler.core.extender import (
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
from pyscheduler.core.state.node import NodeRow

SCALE = 10
"""Extenders score from 0 to 10, plugins from 0 to 100."""
_MOST = 1 << 60
"""What extenders add is cut to this, so that totals stay within int64."""


class _FilterRound(msgspec.Struct):
    """What plugins say of the pod in one step; `found` is None if PreFilter has rejected it."""

    cycle: Cycle
    pre: PreFilterResult
    found: FeasibleNodes | None = None
    nominated: NominatedNode | None = None


class ExtenderDecider(Decider):
    """Chooses nodes for the pods of one profile, those included that are an extender's business."""

    def decide_with_extenders(self, session: ExtenderSession) -> ExtenderSteps[Choice | Diagnosis]:
        """A node for the pod, or why there is none.

        PluginFailed if a plugin raises, ExtenderFailed if an extender fails that is not ignorable.
        """
        self._order.begin()
        try:
            refused: dict[str, Status] = {}
            chosen = yield from self._nominated(session, refused)
            return chosen if chosen is not None else (yield from self._choose_from_all(session, refused))
        except PluginFailed:
            self._break_off(session.pod)
            raise

    def _nominated(self, session: ExtenderSession, refused: dict[str, Status]) -> ExtenderSteps[Choice | None]:
        """The node that an earlier attempt made room on, if it fits and no extender is against it.

        What extenders have against it goes into `refused`: it stands if PreFilter leaves the node out of the search.
        """
        name = self._finder.nominated_node(session.pod)
        if not name or not _is_free(self._look(session).nominated):
            return None
        try:
            kept = yield from self._filtered(session, [name], refused)
        except ExtenderFailed:
            return None  # the search that follows asks again, and it is that answer which counts
        nominated = self._look(session).nominated
        if nominated is None or nominated.refusal is not None or not kept:
            return None
        return Choice(nominated.node, 1)

    def _choose_from_all(
        self, session: ExtenderSession, refused: dict[str, Status]
    ) -> ExtenderSteps[Choice | Diagnosis]:
        """The best of all nodes that plugins and extenders agree on."""
        scores: Mapping[str, int] = {}
        look = self._look(session)
        kept = yield from self._filtered(session, self._feasible_names(look), refused)
        look = look if look.cycle is session.cycle else self._look(session)
        nodes = self._still_fitting(look, kept)
        if len(nodes) > 1:
            scores = yield from self._scores(session, [node.name for node in nodes])
            if look.cycle is not session.cycle:
                look = self._look(session)
                nodes = self._still_fitting(look, kept)
        if not nodes:
            return self._diagnosed(look, refused)
        return Choice(nodes[0] if len(nodes) == 1 else self._winner(session, nodes, scores), len(nodes))

    def _look(self, session: ExtenderSession) -> _FilterRound:
        """Ask PreFilter and Filter, as the cluster is now; hardly anything is asked twice, since answers are kept."""
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

    def _feasible_names(self, look: _FilterRound) -> list[str]:
        """The nodes that fit and count, in the profile's order."""
        if look.found is None:
            return []
        refused = look.nominated.node.row if look.nominated is not None and not _is_free(look.nominated) else None
        rows = self._order.visit(look.found, refused)
        return [self._state.rows[row].name for row in (np.flatnonzero(look.found.fits) if rows is None else rows)]

    def _still_fitting(self, look: _FilterRound, names: Sequence[str]) -> list[NodeRow]:
        """Those of the nodes that are there and fit."""
        if look.found is None or not names:
            return []
        nodes = [node for name in names if (node := self._state.info(name)) is not None]
        fits = look.found.fits[[node.row for node in nodes]].tolist()
        return [node for node, fitting in zip(nodes, fits, strict=True) if fitting]

    def _filtered(
        self, session: ExtenderSession, names: Sequence[str], refused: dict[str, Status]
    ) -> ExtenderSteps[Sequence[str]]:
        """What the extenders that filter leave of some nodes; what they say of the others goes into `refused`."""
        for extender in session.extenders:
            if not extender.filters or not names:
                continue
            (answer,) = yield from session.call(FilterCall(extender, tuple(names)))
            if isinstance(answer, ExtenderFilterResult):
                refused.update(_rejections(names, answer))
                names = tuple(dict.fromkeys(answer.nodes))
            elif not extender.ignorable:
                raise ExtenderFailed(answer.message if isinstance(answer, ExtenderCallFailed) else "no answer")
        return names

    def _scores(self, session: ExtenderSession, names: Sequence[str]) -> ExtenderSteps[Mapping[str, int]]:
        """What extenders add to the totals of nodes. Those that fail add nothing, whether ignorable or not."""
        calls = [PrioritizeCall(extender, tuple(names)) for extender in session.extenders if extender.prioritizes]
        scores: dict[str, int] = {}
        if len(calls) < len(session.extenders):
            # One that ranks no nodes gives each of them 0, and that too leaves ties to chance.
            scores = dict.fromkeys(names, 0)
        if not calls:
            return scores
        answers = yield from session.call(*calls)
        for call, answer in zip(calls, answers, strict=True):
            for name, score in answer.scores if isinstance(answer, ExtenderPrioritizeResult) else ():
                scores[name] = scores.get(name, 0) + score * call.extender.weight * SCALE
        return {name: max(-_MOST, min(score, _MOST)) for name, score in scores.items()}

    def _winner(self, session: ExtenderSession, nodes: Sequence[NodeRow], scores: Mapping[str, int]) -> NodeRow:
        """The best total; of equals one by chance among those that extenders have spoken of, if there are any."""
        totals = self._totals(session.cycle, session.pod, nodes)
        totals += np.fromiter((scores.get(node.name, 0) for node in nodes), np.int64, len(nodes))
        best = np.flatnonzero(totals == totals.max()).tolist()
        drawn = [place for place in best if nodes[place].name in scores]
        return nodes[
            drawn[session.cycle.random_bits() % len(drawn)] if drawn else self._order.pick(totals, session.cycle)
        ]

    def _diagnosed(self, look: _FilterRound, refused: Mapping[str, Status]) -> Diagnosis:
        """Why no node is left: what extenders have said of nodes goes where plugins have nothing against them."""
        found = look.found
        if found is None:
            return diagnose(self._state, look.pre)
        rows = {node.row: status for name, status in refused.items() if (node := self._state.info(name)) is not None}
        against = {row: status for row, status in rows.items() if found.status(row) in (None, found.outside)}
        fits = found.fits.copy()
        fits[list(against)] = False
        return diagnose(self._state, look.pre, replace(found, fits=fits, refused={**found.refused, **against}))


def _is_free(nominated: NominatedNode | None) -> bool:
    return nominated is not None and nominated.refusal is None


def _rejections(asked: Sequence[str], answer: ExtenderFilterResult) -> Iterator[tuple[str, Status]]:
    """What became of the nodes that are not kept. Those without a word are not preempted on, as in kube-scheduler."""
    kept = frozenset(answer.nodes)
    for name in asked:
        if name in kept:
            continue
        if name in answer.unresolvable:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER, (answer.unresolvable[name],))
        elif name in answer.failed:
            yield name, Status(Code.UNSCHEDULABLE, EXTENDER, (answer.failed[name],))
        else:
            yield name, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, EXTENDER)
