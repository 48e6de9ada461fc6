"""A cluster with scheduling attempts, each compared with an uncached evaluation in a rebuilt cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pyscheduler.api import Cycle, Pod, Scores, Status
from pyscheduler.core.evaluation.uncached_evaluation import filter_node, pre_score_rows, score_rows, sum_scores
from pyscheduler.core.framework.handle import build_handle
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.queue.nominator import Nominator
from pyscheduler.core.result_cache.equivalence_cache import EquivalenceCache
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.scheduling.extension_points import run_pre_filter_plugins
from pyscheduler.core.scheduling.node_order import random_best
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import PodTopologySpread
from pyscheduler.kernels import Rows
from tests.properties.object_fixture import ObjectFixture
from tests.properties.probe_plugins import IN_TREE, Class, external, profile_of
from tests.properties.sample_objects import AFFINITY_KINDS, CLAIM_KINDS, CONSTRAINED_KINDS, NAMES, pod_of
from tests.properties.state_steps import StateModel

KINDS = (0, 12, 7, 14, 5, *CLAIM_KINDS)
"""Kinds of the incoming pods: few, so that signatures recur; of all teams and priorities, some of one signature group.
"""
IN_TREE_KINDS = (*KINDS, 4, *AFFINITY_KINDS, *CONSTRAINED_KINDS)
"""Kinds for the in-tree plugins, which read more of a pod."""


def kinds_of(classes: tuple[Class, ...]) -> tuple[int, ...]:
    """Return the kinds of incoming pods for these plugins."""
    return IN_TREE_KINDS if PodTopologySpread in classes else KINDS


@dataclass
class Answers:
    """Result of an attempt: totals of the feasible nodes and the selected one, or each node's rejection."""

    totals: dict[str, int] = field(default_factory=dict)
    refused: dict[str, Status] = field(default_factory=dict)
    choice: str = ""
    fitting: int = 0
    rejection: Status | None = None


class EvaluationWorld(StateModel):
    """A cluster state with the steps of `StateModel` and scheduling attempts."""

    def __init__(self, classes: tuple[Class, ...], kinds: Sequence[int] | None = None) -> None:
        """`kinds` are those of incoming pods, by default the ones for the plugins."""
        super().__init__()
        self.classes = classes
        self.nominator = Nominator()
        self.handle = build_handle(self.state, self.nominator, {}, pending_pod=lambda _: None)
        objects, is_in_tree = self.handle.objects, set(classes) <= set(IN_TREE)
        self.object_fixture = ObjectFixture(objects.set, objects.remove) if is_in_tree else None
        self.kinds = kinds or kinds_of(classes)
        self.profile = profile_of(classes, self.handle)
        self.runtime = ProfileRuntime.of(self.profile, self.state, self.nominator, Instrument())
        self.attempts = 0
        self.decisions: list[str] = []
        self.outcomes: Counter[str] = Counter()
        """Number of times that each plugin rejected a pod or node ("no") or gave different scores ("score")."""
        external["today"] = 0

    def _attempt(self, number: int, kind: int, where: int) -> None:
        """Schedule a pod; every other one that fits is placed on its node."""
        if not len(self.state):
            return
        self.attempts += 1
        kind = self.kinds[kind % len(self.kinds)]
        incoming = pod_of(self.shapes, f"x{number}", kind)
        expected = self._evaluate_uncached(self._cycle(incoming), incoming)
        actual = as_decided(self.runtime, self.state, self._cycle(incoming), incoming)
        self.decisions.append(str(actual))
        if actual.choice:
            expected.refused, expected.totals = {}, expected.totals if actual.totals else {}
        assert actual == expected, f"{actual}\nis not\n{expected}"
        if expected.choice and where % 2:
            self._put(f"p{number}", kind, expected.choice, False)

    def _change_external(self, number: int, _kind: int, _where: int) -> None:
        external["today"] = number

    def _object(self, number: int, kind: int, where: int) -> None:
        """Create, update or delete an object that plugins look up."""
        if self.object_fixture is not None:
            self.state.object_changed(self.object_fixture.put(number + 8 * kind, where))

    def _trial(self, number: int, kind: int, where: int) -> None:
        with self.state.dry_run():
            self.state.remove(f"p{number}")
            self.state.place(pod_of(self.shapes, "guest", kind), NAMES[where])

    def _nominate(self, number: int, kind: int, where: int) -> None:
        """Nominate a pod that is never scheduled itself."""
        self.nominator.add(pod_of(self.shapes, f"g{number % 3}", self.kinds[kind % len(self.kinds)]), NAMES[where])

    def _denominate(self, number: int, _kind: int, _where: int) -> None:
        self.nominator.remove(f"g{number % 3}")

    def _drop_last(self, _number: int, _kind: int, _where: int) -> None:
        """Remove the last row, the only removal that moves no other row."""
        if len(self.state):
            self._drop(0, 0, NAMES.index(self.state.rows[-1].name))

    def _many(self, _number: int, kind: int, where: int) -> None:
        """Set more nodes than are evaluated by per-node calls."""
        for i in range(where, len(NAMES)):
            self._node(0, kind + i - where, i)

    # -- uncached evaluation ---------------------------------------------------------------------------------------

    def _cycle(self, pod: Pod) -> Cycle:
        return Cycle(0.0, self.profile.name, pod.uid, self.attempts)

    def _evaluate_uncached(self, cycle: Cycle, pod: Pod) -> Answers:
        """Run every plugin on every node one by one, without any cache."""
        state, profile = self.rebuilt(), profile_of(self.classes, self.handle)
        pre = run_pre_filter_plugins(profile.pre_filter, cycle, pod, state.table, PluginResultCache())
        if pre.rejection is not None:
            self._count("no", [pre.rejection.plugin])
            return Answers(rejection=pre.rejection)
        statuses: dict[str, Status | None] = {}
        for node in state.rows:
            if pre.names is not None and node.name not in pre.names:
                statuses[node.name] = pre.absent_nodes_status(None)
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
            answers.choice, answers.fitting = fitting[random_best(totals, cycle)].name, len(fitting)
        return answers

    def _scored(self, profile: Profile, state: ClusterState, cycle: Cycle, pod: Pod, rows: Rows) -> Scores:
        skipped = pre_score_rows(profile, state, cycle, pod, rows)
        scores = score_rows(profile, state, cycle, pod, rows, skipped)
        self._count("score", (name for name, of_nodes in scores.items() if len(set(of_nodes.tolist())) > 1))
        return sum_scores(scores, len(rows))

    def _count(self, what: str, plugins: Iterable[str]) -> None:
        self.outcomes.update(f"{what} {plugin}" for plugin in plugins)

    def _with_rivals(self, pod: Pod, name: str, skipped: frozenset[str]) -> Status | None:
        """Return the status of a node with its nominated pods placed on it.

        Plugins that skipped the pod before stay skipped, as in kube-scheduler.
        """
        others = self.nominator.competing_pods(pod, name)
        if not others:
            return None
        state, cycle, profile = self.rebuilt(), self._cycle(pod), profile_of(self.classes, self.handle)
        for other in others:
            state.place(other, name)
        pre = run_pre_filter_plugins(profile.pre_filter, cycle, pod, state.table, PluginResultCache())
        node = state.info(name)
        return pre.rejection or (node and filter_node(profile, cycle, pod, node, pre.skipped | skipped)) or None


def as_decided(runtime: ProfileRuntime, state: ClusterState, cycle: Cycle, pod: Pod) -> Answers:
    """Return the result of `schedule_pod`, with the cached totals if several of all nodes are feasible.

    With one feasible node nothing is scored; the missing scores must not affect later attempts.
    """
    actual = schedule_pod(runtime, cycle, pod)
    if isinstance(actual, ScheduleResult):
        answers, cache = Answers(choice=actual.node.name, fitting=actual.feasible), runtime.caches.get(pod)
        assert cache is not None, "the pods can be signed"
        if 1 < actual.feasible == np.count_nonzero(cache.feasible) and not _narrowed(runtime, pod):
            _add_totals(answers, cache, state)
            assert list(cache.feasible_table().names) == list(answers.totals)
        return answers
    assert actual.filter_message
    if actual.pre_filter is not None:
        return Answers(rejection=actual.pre_filter)
    assert sum(actual.tally.values()) == len(state)
    statuses = {node.name: actual.status_of(node.name) for node in state.rows}
    return Answers(refused={name: status for name, status in statuses.items() if status is not None})


def _narrowed(runtime: ProfileRuntime, pod: Pod) -> bool:
    return pod.priority < 0 and any(plugin.name == "NamedNodes" for plugin in runtime.profile.pre_filter)


def _add_totals(answers: Answers, cache: EquivalenceCache, state: ClusterState) -> None:
    for node, total in zip(state.rows, cache.totals.tolist(), strict=True):
        if total >= 0:
            answers.totals[node.name] = total
