"""In kube-scheduler's order every attempt chooses what its own loops would, node after node, with nothing kept.

The model is kube-scheduler's Go told in plain Python: the node tree and its snapshot, the search that stops, the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from pyscheduler.api import Cycle, Pod, Status
from pyscheduler.core.decide import order as order_module
from pyscheduler.core.decide.decider import Choice, Decider
from pyscheduler.core.decide.order import KubeSchedulerOrder, NextStartNode, nodes_to_find
from pyscheduler.core.decide.plugin_result_cache import PluginResultCache
from pyscheduler.core.decide.prefilter import run_pre_filter
from pyscheduler.core.decide.uncached_evaluation import filter_node, filter_with_nominated_pods, score_nodes
from pyscheduler.core.instrument import Instrument
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_order import NodeOrder, zone_of
from tests.properties.evaluation_model import KINDS, EvaluationWorld
from tests.properties.probe_plugins import IN_TREE, LEVELS, Class
from tests.properties.profiles import assert_caught, quick
from tests.properties.sample_objects import NAMES, node_of, pod_of
from tests.properties.test_incremental import FLEET, STORIES, Plant, Story
from tests.unit.core.decide.test_order import heap_top

FEW = 2
"""The least that a search looks for here, instead of 100: the clusters are small."""
SHARE = 60


class Tree:
    """kube-scheduler's nodeTree, and the list that UpdateSnapshot makes of it."""

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


class KubeWorld(EvaluationWorld):
    """Attempts are made by a decider in kube-scheduler's order, and by its words."""

    def __init__(self, classes: tuple[Class, ...]) -> None:
        super().__init__(classes)
        self.profile = replace(self.profile, percentage_of_nodes_to_score=SHARE)
        self.start = NextStartNode()
        self.decider = Decider(self.profile, self.state, self.nominator, Instrument(), self.start)
        self.tree, self.next_start = Tree(), 0

    def _node(self, who: int, kind: int, where: int) -> None:
        super()._node(who, kind, where)
        self.tree.put(NAMES[where], zone_of(node_of(NAMES[where], kind).metadata.labels or {}))

    def _drop(self, who: int, kind: int, where: int) -> None:
        if NAMES[where] in self.nodes:
            self.tree.remove(NAMES[where])
        super()._drop(who, kind, where)

    def _attempt(self, who: int, kind: int, where: int) -> None:
        self.attempts += 1
        kind = KINDS[kind % len(KINDS)]
        incoming = pod_of(self.shapes, f"x{who}", kind)
        incoming.nominated_node_name = NAMES[where] if who == 0 else ""
        names = self.tree.snapshot()
        wanted = self._by_the_words(self._cycle(incoming), incoming, names) if names else ""
        decided = self.decider.decide(self._cycle(incoming), incoming)
        chosen = decided.node.name if isinstance(decided, Choice) else ""
        assert (chosen, self.start.index) == (wanted, self.next_start), f"{chosen} is not {wanted}"
        if chosen and where % 2:
            self._put(f"p{who}", kind, chosen, False)

    def _by_the_words(self, cycle: Cycle, pod: Pod, names: list[str]) -> str:
        """findNodesThatFitPod, findNodesThatPassFilters and selection, as with one worker."""
        state = self.rebuilt()
        rows = [node for name in names if (node := state.info(name))]
        pre = run_pre_filter(self.profile.pre_filter, cycle, pod, state.table(), PluginResultCache())
        if pre.rejection is not None:
            return ""
        refused: set[str] = set()
        nominated = state.info(pod.nominated_node_name)
        if nominated is not None:
            if self._refusal(cycle, pod, nominated) is None:
                return nominated.name
            refused.add(nominated.name)
        left = rows if pre.names is None else [node for node in rows if node.name in pre.names]
        feasible: list[NodeRow] = []
        enough = nodes_to_find(len(left), SHARE)
        for i in range(len(left)):
            node = left[(self.next_start + i) % len(left)]
            if self._refusal(cycle, pod, node) is not None:
                refused.add(node.name)
            elif len(feasible) == enough:
                break
            else:
                feasible.append(node)
        if left:
            self.next_start = (self.next_start + len(feasible) + len(refused)) % len(rows)
        if len(feasible) < 2:
            return feasible[0].name if feasible else ""
        return feasible[heap_top(score_nodes(self.profile, state, cycle, pod, feasible).tolist())].name

    def _refusal(self, cycle: Cycle, pod: Pod, node: NodeRow) -> Status | None:
        others = self.nominator.rivals(pod, node.name)
        refusal = filter_with_nominated_pods(self.profile, cycle, pod, node, others) if others else None
        return refusal or filter_node(self.profile, cycle, pod, node, cycle.skipped)


def proof_for(classes: tuple[Class, ...]) -> Callable[[Story], None]:
    def prove(story: Story) -> None:
        fleet, rounds = story
        world = KubeWorld(classes)
        more = [("many", 0, 3, 0)] if fleet is FLEET else []
        for step in (*more, *fleet, *chain.from_iterable(rounds)):
            world.do(step)

    return prove


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "MIN_FEASIBLE_NODES", FEW)


@pytest.mark.parametrize("classes", [IN_TREE, LEVELS], ids=["in-tree", "all levels"])
def test_the_choice_is_that_of_kube_schedulers_own_loops(classes: tuple[Class, ...]) -> None:
    quick(40)(given(STORIES)(proof_for(classes)))()


# -- planted bugs --------------------------------------------------------------------------------------------------


def _first_wins_ties(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order_module, "top_of_heap", lambda totals: int(totals.argmax()))


def _list_is_always_made_anew(patch: pytest.MonkeyPatch) -> None:
    names = NodeOrder.names

    def anew(self: NodeOrder) -> list[str]:
        self._note("", set(), self._unlisted)
        return names(self)

    patch.setattr(NodeOrder, "names", anew)


def _zones_are_not_told_apart(patch: pytest.MonkeyPatch) -> None:
    put = NodeOrder.put
    patch.setattr(NodeOrder, "put", lambda self, name, _: put(self, name, {}))


def _refused_nominated_nodes_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    visit = KubeSchedulerOrder.visit
    patch.setattr(KubeSchedulerOrder, "visit", lambda self, found, _=None: visit(self, found))


PLANTS = (
    _first_wins_ties,
    _list_is_always_made_anew,
    _zones_are_not_told_apart,
    _refused_nominated_nodes_are_not_counted,
)


@pytest.mark.parametrize("plant", PLANTS)
def test_another_choice_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert_caught(proof_for(IN_TREE), STORIES, AssertionError)
