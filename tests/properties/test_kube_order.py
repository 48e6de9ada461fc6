"""In kube-scheduler's order every attempt selects the node that kube-scheduler's own loops select, without caches.

The model transcribes kube-scheduler's Go to plain Python: the node tree and its snapshot, the search, and the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from pyscheduler.api import Cycle, Pod, Status
from pyscheduler.core.evaluation.uncached_evaluation import (
    filter_node,
    filter_with_nominated_pods,
    pre_score_rows,
    score_rows,
    sum_scores,
)
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.result_cache.plugin_result_cache import PluginResultCache
from pyscheduler.core.scheduling import node_order
from pyscheduler.core.scheduling import schedule_pod as schedule_pod_module
from pyscheduler.core.scheduling.extension_points import run_pre_filter_plugins
from pyscheduler.core.scheduling.node_order import KubeSchedulerOrder, NextStartNode, num_feasible_nodes_to_find
from pyscheduler.core.scheduling.profile_runtime import ProfileRuntime
from pyscheduler.core.scheduling.schedule_pod import ScheduleResult, schedule_pod
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_order import NodeOrder, zone_of
from tests.properties.evaluation_model import KINDS, EvaluationWorld
from tests.properties.probe_plugins import IN_TREE, LEVELS, Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import NAMES, node_of, pod_of
from tests.properties.test_incremental import FLEET, STORIES, Plant, Story
from tests.unit.core.scheduling.test_node_order import heap_top

FEW = 2
"""Lower bound of the sample instead of 100, because the clusters are small."""
SHARE = 60


class Tree:
    """kube-scheduler's nodeTree, and the node list that UpdateSnapshot derives from it."""

    def __init__(self) -> None:
        self.zones: dict[Any, list[str]] = {}
        self.zone: dict[str, Any] = {}
        self.listed: list[str] = []

    def put(self, name: str, zone: Any) -> None:
        if self.zone.get(name, ()) != zone:
            if name in self.zone:
                self.remove(name)
            self.zones.setdefault(zone, []).append(name)
            self.zone[name] = zone

    def remove(self, name: str) -> None:
        zone = self.zone.pop(name)
        self.zones[zone].remove(name)
        if not self.zones[zone]:
            del self.zones[zone]

    def snapshot(self) -> list[str]:
        if set(self.listed) != set(self.zone):
            longest = max(map(len, self.zones.values()), default=0)
            self.listed = [z[i] for i in range(longest) for z in self.zones.values() if i < len(z)]
        return self.listed


class KubeOrderModel(EvaluationWorld):
    """Run attempts with kube-scheduler's order and by the transcription."""

    def __init__(self, classes: tuple[Class, ...]) -> None:
        super().__init__(classes)
        self.profile = replace(self.profile, percentage_of_nodes_to_score=SHARE)
        self.start = NextStartNode()
        self.runtime = ProfileRuntime.of(self.profile, self.state, self.nominator, Instrument(), self.start)
        self.tree, self.next_start = Tree(), 0

    def _node(self, number: int, kind: int, where: int) -> None:
        super()._node(number, kind, where)
        self.tree.put(NAMES[where], zone_of(node_of(NAMES[where], kind).metadata.labels or {}))

    def _drop(self, number: int, kind: int, where: int) -> None:
        if NAMES[where] in self.nodes:
            self.tree.remove(NAMES[where])
        super()._drop(number, kind, where)

    def _attempt(self, number: int, kind: int, where: int) -> None:
        self.attempts += 1
        kind = KINDS[kind % len(KINDS)]
        incoming = pod_of(self.shapes, f"x{number}", kind)
        incoming.nominated_node_name = NAMES[where] if number == 0 else ""
        names = self.tree.snapshot()
        expected = self._select_like_kube_scheduler(self._cycle(incoming), incoming, names) if names else ""
        result = schedule_pod(self.runtime, self._cycle(incoming), incoming)
        chosen = result.node.name if isinstance(result, ScheduleResult) else ""
        assert (chosen, self.start.index) == (expected, self.next_start), f"{chosen} is not {expected}"
        if chosen and where % 2:
            self._put(f"p{number}", kind, chosen, False)

    def _select_like_kube_scheduler(self, cycle: Cycle, pod: Pod, names: list[str]) -> str:
        """Transcription of findNodesThatFitPod, findNodesThatPassFilters and selectHost with one worker."""
        state = self.rebuilt()
        rows = [node for name in names if (node := state.info(name))]
        pre = run_pre_filter_plugins(self.profile.pre_filter, cycle, pod, state.table, PluginResultCache())
        if pre.rejection is not None:
            return ""
        rejected: set[str] = set()
        nominated = state.info(pod.nominated_node_name)
        if nominated is not None:
            if self._filter(cycle, pod, nominated) is None:
                return nominated.name
            rejected.add(nominated.name)
        candidates = rows if pre.names is None else [node for node in rows if node.name in pre.names]
        feasible: list[NodeRow] = []
        enough = num_feasible_nodes_to_find(len(candidates), SHARE)
        for i in range(len(candidates)):
            node = candidates[(self.next_start + i) % len(candidates)]
            if self._filter(cycle, pod, node) is not None:
                rejected.add(node.name)
            elif len(feasible) == enough:
                break
            else:
                feasible.append(node)
        if candidates:
            self.next_start = (self.next_start + len(feasible) + len(rejected)) % len(rows)
        if len(feasible) < 2:
            return feasible[0].name if feasible else ""
        fitting = np.array([node.row for node in feasible], np.intp)
        skipped = pre_score_rows(self.profile, state, cycle, pod, fitting)
        totals = sum_scores(score_rows(self.profile, state, cycle, pod, fitting, skipped), len(fitting))
        return feasible[heap_top(totals.tolist())].name

    def _filter(self, cycle: Cycle, pod: Pod, node: NodeRow) -> Status | None:
        others = self.nominator.competing_pods(pod, node.name)
        status = filter_with_nominated_pods(self.profile, cycle, pod, node, others) if others else None
        return status or filter_node(self.profile, cycle, pod, node, cycle.skipped)


def property_for(classes: tuple[Class, ...]) -> Callable[[Story], None]:
    def check(story: Story) -> None:
        fleet, rounds = story
        model = KubeOrderModel(classes)
        extra_nodes = [("many", 0, 3, 0)] if fleet is FLEET else []
        for step in (*extra_nodes, *fleet, *chain.from_iterable(rounds)):
            model.do(step)

    return check


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_order, "MIN_FEASIBLE_NODES", FEW)


@pytest.mark.parametrize("classes", [IN_TREE, LEVELS], ids=["in-tree", "all levels"])
def test_selection_equals_kube_scheduler(classes: tuple[Class, ...]) -> None:
    quick(40)(given(STORIES)(property_for(classes)))()


# -- planted bugs --------------------------------------------------------------------------------------------------


def _first_wins_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedule_pod_module, "top_of_heap", lambda totals: int(totals.argmax()))


def _always_rebuild_list(patch: pytest.MonkeyPatch) -> None:
    names = NodeOrder.names

    def anew(self: NodeOrder) -> list[str]:
        self._record("", set(), self._added)
        return names(self)

    patch.setattr(NodeOrder, "names", anew)


def _ignore_zones(patch: pytest.MonkeyPatch) -> None:
    put = NodeOrder.put
    patch.setattr(NodeOrder, "put", lambda self, name, _: put(self, name, {}))


def _skip_rejected_nominated_nodes(patch: pytest.MonkeyPatch) -> None:
    find_feasible_rows = KubeSchedulerOrder.find_feasible_rows
    patch.setattr(
        KubeSchedulerOrder, "find_feasible_rows", lambda self, fits, rows, _=None: find_feasible_rows(self, fits, rows)
    )


PLANTS = (
    _first_wins_ties,
    _always_rebuild_list,
    _ignore_zones,
    _skip_rejected_nominated_nodes,
)


@pytest.mark.parametrize("plant", PLANTS)
def test_property_catches_planted_bug(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(property_for(IN_TREE), STORIES, AssertionError)
