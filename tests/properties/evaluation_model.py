"""A cluster in which attempts are made, each checked against asking everybody again in a cluster built afresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pyscheduler.api import Cycle, Pod, Scores, Status
from pyscheduler.core.decide.decider import Choice, Decider
from pyscheduler.core.decide.equivalence_cache import EquivalenceCache
from pyscheduler.core.decide.order import EveryNode
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache
from pyscheduler.core.decide.prefilter import run_pre_filter
from pyscheduler.core.decide.uncached_evaluation import filter_node, score_columns
from pyscheduler.core.framework.handle import CoreHandle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.state import ClusterState
from pyscheduler.kernels import Rows
from tests.properties.object_fixture import ObjectFixture
from tests.properties.probe_plugins import IN_TREE, Class, profile_of, weather
from tests.properties.sample_objects import CLAIMING, DEMANDING, NAMES, SOCIABLE, pod_of
from tests.properties.state_steps import StateWorld

KINDS = (0, 12, 7, 14, 5, *CLAIMING)
"""Of the pods that are tried: few, so that shapes come again; of all teams and priorities, and some of one template."""
IN_TREE_KINDS = (*KINDS, 4, *SOCIABLE, *DEMANDING)
"""For the plugins that read more of a pod than that."""


def kinds_of(classes: tuple[Class, ...]) -> tuple[int, ...]:
    """The kinds of pods to try with these plugins."""
    return IN_TREE_KINDS if classes is IN_TREE else KINDS


@dataclass
class Answers:
    """What an attempt finds: the nodes that fit with their totals and the choice, or why each node does not."""

    totals: dict[str, int] = field(default_factory=dict)
    refused: dict[str, Status] = field(default_factory=dict)
    choice: str = ""
    fitting: int = 0
    rejection: Status | None = None


class EvaluationWorld(StateWorld):
    """Its steps are those of a state, and attempts."""

    def __init__(self, classes: tuple[Class, ...]) -> None:
        super().__init__()
        self.classes = classes
        self.handle = CoreHandle()
        self.object_fixture = ObjectFixture(self.handle) if classes is IN_TREE else None
        self.kinds = kinds_of(classes)
        self.profile = profile_of(classes, self.handle)
        self.nominator = Nominator()
        self.decider = Decider(self.profile, self.state, self.nominator, Instrument())
        self.attempts = 0
        self.decisions: list[str] = []
        self.said: Counter[str] = Counter()
        """How often each plugin has rejected a pod or a node ("no") or told nodes apart ("score")."""
        weather["today"] = 0

    def _attempt(self, who: int, kind: int, where: int) -> None:
        """Try a pod; every other one that finds a node is placed there."""
        if not len(self.state):
            return
        self.attempts += 1
        kind = self.kinds[kind % len(self.kinds)]
        incoming = pod_of(self.shapes, f"x{who}", kind)
        again = self._asked_again(self._cycle(incoming), incoming)
        decided = as_decided(self.decider, self.state, self._cycle(incoming), incoming)
        self.decisions.append(str(decided))
        if decided.choice:
            again.refused, again.totals = {}, again.totals if decided.totals else {}
        assert decided == again, f"{decided}\nis not\n{again}"
        if again.choice and where % 2:
            self._put(f"p{who}", kind, again.choice, False)

    def _weather(self, who: int, _kind: int, _where: int) -> None:
        weather["today"] = who

    def _object(self, who: int, kind: int, where: int) -> None:
        """An object that plugins look up changes, comes or goes."""
        if self.object_fixture is not None:
            self.object_fixture.put(who + 8 * kind, where)
            self.state.objects_changed()

    def _trial(self, who: int, kind: int, where: int) -> None:
        with self.state.dry_run():
            self.state.remove(f"p{who}")
            self.state.place(pod_of(self.shapes, "guest", kind), NAMES[where])

    def _nominate(self, who: int, kind: int, where: int) -> None:
        """The nominated pods are none of those that are tried."""
        self.nominator.add(pod_of(self.shapes, f"g{who % 3}", self.kinds[kind % len(self.kinds)]), NAMES[where])

    def _denominate(self, who: int, _kind: int, _where: int) -> None:
        self.nominator.remove(f"g{who % 3}")

    def _drop_last(self, _who: int, _kind: int, _where: int) -> None:
        """The one removal that moves no other row."""
        if len(self.state):
            self._drop(0, 0, NAMES.index(self.state.rows[-1].name))

    def _many(self, _who: int, kind: int, where: int) -> None:
        """More rows than are answered one by one."""
        for i in range(where, len(NAMES)):
            self._node(0, kind + i - where, i)

    # -- the slow way ----------------------------------------------------------------------------------------------

    def _cycle(self, pod: Pod) -> Cycle:
        return Cycle(0.0, self.profile.name, pod.uid, self.attempts)

    def _asked_again(self, cycle: Cycle, pod: Pod) -> Answers:
        """Every plugin asked for every node, one by one; nothing is kept from before or for later."""
        state, profile = self.rebuilt(), profile_of(self.classes, self.handle)
        pre = run_pre_filter(profile.pre_filter, cycle, pod, state.table(), PluginResultCache())
        if pre.rejection is not None:
            self._count("no", [pre.rejection.plugin])
            return Answers(rejection=pre.rejection)
        statuses: dict[str, Status | None] = {}
        for node in state.rows:
            if pre.names is not None and node.name not in pre.names:
                statuses[node.name] = pre.outside_status(None)
            else:
                statuses[node.name] = self._with_rivals(pod, node.name, pre.skipped) or filter_node(
                    profile, cycle, pod, node, pre.skipped
                )
        fitting = [node for node in state.rows if statuses[node.name] is None]
        answers = Answers(refused={name: status for name, status in statuses.items() if status is not None})
        self._count("no", (status.plugin for status in answers.refused.values()))
        if fitting:
            totals = self._scored(profile, state, cycle, pod, np.array([node.row for node in fitting], np.intp))
            answers.totals = dict(zip([node.name for node in fitting], totals.tolist(), strict=True))
            answers.choice, answers.fitting = fitting[EveryNode().pick(totals, cycle)].name, len(fitting)
        return answers

    def _scored(self, profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: Rows) -> Scores:
        columns = score_columns(profile, state, cycle, pod, rows)
        self._count("score", (column.plugin.name for column in columns if len(set(column.weighted[rows].tolist())) > 1))
        return sum((column.weighted[rows] for column in columns), np.zeros(len(rows), np.int64))

    def _count(self, what: str, plugins: Iterable[str]) -> None:
        self.said.update(f"{what} {plugin}" for plugin in plugins)

    def _with_rivals(self, pod: Pod, name: str, skipped: frozenset[str]) -> Status | None:
        """The answer for a node on which the pods nominated to it run already.

        Who left itself out before they were thought of stays out, as in kube-scheduler.
        """
        others = self.nominator.rivals(pod, name)
        if not others:
            return None
        state, cycle, profile = self.rebuilt(), self._cycle(pod), profile_of(self.classes, self.handle)
        for other in others:
            state.place(other, name)
        pre = run_pre_filter(profile.pre_filter, cycle, pod, state.table(), PluginResultCache())
        node = state.info(name)
        return pre.rejection or (node and filter_node(profile, cycle, pod, node, pre.skipped | skipped)) or None


def as_decided(decider: Decider, state: ClusterState, cycle: Cycle, pod: Pod) -> Answers:
    """What the decider says, with all totals where it keeps them: if it had several of all the nodes to choose from.

    Where one node fits there is nothing to score; what is due then must not be missing from later attempts.
    """
    decided = decider.decide(cycle, pod)
    if isinstance(decided, Choice):
        answers, kept = Answers(choice=decided.node.name, fitting=decided.feasible), decider._cache_for(pod)
        if 1 < decided.feasible == np.count_nonzero(kept.feasible) and not _narrowed(decider, pod):
            _add_totals(answers, kept, state)
        return answers
    assert decided.filter_message
    if decided.pre_filter is not None:
        return Answers(rejection=decided.pre_filter)
    assert sum(decided.tally.values()) == len(state)
    statuses = {node.name: decided.status_of(node.name) for node in state.rows}
    return Answers(refused={name: status for name, status in statuses.items() if status is not None})


def _narrowed(decider: Decider, pod: Pod) -> bool:
    return pod.priority < 0 and any(plugin.name == "Narrow" for plugin in decider._profile.pre_filter)


def _add_totals(answers: Answers, kept: EquivalenceCache, state: ClusterState) -> None:
    for node, total in zip(state.rows, kept.scores.total[: len(state)].tolist(), strict=True):
        if total >= 0:
            answers.totals[node.name] = total
