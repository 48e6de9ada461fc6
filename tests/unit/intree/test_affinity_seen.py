"""How placed pods see a newcomer: who differs in what none of their terms asks for is one and the same to them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.core.state import ClusterState, Shapes
from pyscheduler.intree.affinity import seen as module
from pyscheduler.intree.affinity.counts import Meant, Newcomer
from pyscheduler.intree.affinity.seen import DrawingTerms, KeepingOffTerms, Sight
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import HOST, IS_WEB, ZONE, has, plugin, term

WEB = pod("web").label("app", "web")
OFF_WEB = pod("keeper").apart(term(IS_WEB, HOST))
OF_TURN_1 = has("turn", "In", "1")


class World:
    """One node, and those who see newcomers by the terms that keep them off."""

    def __init__(self, *placed: PodBuilder) -> None:
        self.state = ClusterState()
        self.state.set_node(node("n").build())
        self.shapes = Shapes()
        self.sight = Sight(KeepingOffTerms())
        for each in placed:
            self.place(each)

    def place(self, built: PodBuilder) -> None:
        self.state.place(built.build(self.shapes), "n")

    def seen(self, of: PodBuilder, namespaces: int = 0, **labels: str) -> Newcomer | Meant:
        newcomer = Newcomer(of.build(self.shapes).shape, labels)
        return self.sight.of(newcomer, self.state.table(), namespaces)


def test_who_differs_in_what_none_asks_for_is_the_same() -> None:
    world = World(OFF_WEB)
    seen = [world.seen(WEB.label("turn", str(turn))) for turn in range(3)]
    assert seen[0] == seen[1] == seen[2] != world.seen(pod("db").label("app", "db"))


def test_who_differs_in_what_one_asks_for_is_not() -> None:
    world = World(OFF_WEB, pod("picky").apart(term(OF_TURN_1, HOST)))
    assert world.seen(WEB.label("turn", "1")) != world.seen(WEB.label("turn", "2"))


def test_terms_that_come_and_go_change_it_and_no_others() -> None:
    world = World(OFF_WEB)
    before, other = world.seen(WEB), world.seen(pod("db"))
    assert world.seen(WEB) is before, "it is found out once"
    world.place(pod("more").apart(term(IS_WEB, ZONE)))
    assert world.seen(WEB) != before
    assert world.seen(pod("db")) == other
    world.state.remove("more")
    assert world.seen(WEB) == before


def test_labels_of_namespaces_matter_to_terms_that_choose_by_them() -> None:
    world = World(
        pod("far").namespace("elsewhere").apart(term(IS_WEB, HOST, namespaceSelector={"matchLabels": {"team": "red"}}))
    )
    assert world.seen(WEB, namespaces=1, team="red") != world.seen(WEB, namespaces=2, team="blue")


def test_by_whom_pods_are_drawn_they_are_seen_likewise() -> None:
    world = World(pod("fan").prefers_near(7, term(OF_TURN_1, ZONE)), pod("near").near(term(IS_WEB, ZONE)))
    one, two = WEB.label("turn", "1"), WEB.label("turn", "2")
    world.sight = Sight(DrawingTerms(required_weight=0))
    assert world.seen(one) != world.seen(two) == world.seen(pod("db"))
    world.sight = Sight(DrawingTerms(required_weight=1))
    assert world.seen(one) != world.seen(two) != world.seen(pod("db"))


@pytest.mark.parametrize("most", [module._MOST, -1], ids=["as it is seen", "by all its labels"])
def test_what_draws_a_shape_is_found_out_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", most)
    subject, world = plugin(), World(pod("fan").prefers_near(7, term(IS_WEB, ZONE)))
    web, nodes = WEB.build(world.shapes), world.state.table()
    assert subject._drawing(web, (ZONE,), nodes) is subject._drawing(web, (ZONE,), nodes)


@pytest.mark.parametrize("many", ["terms of one pod", "terms of all", "bytes of one that has terms"])
def test_where_it_would_be_too_much_newcomers_are_told_apart_by_all_their_labels(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = [term(has("turn", "In", str(i)), HOST) for i in range(module._MOST + 1)]
    placed: dict[str, Any] = {
        "terms of one pod": [pod("greedy").apart(*terms)],
        "terms of all": [pod(f"p{i}").apart(each) for i, each in enumerate(terms)],
        "bytes of one that has terms": [OFF_WEB],
    }
    if many.startswith("bytes"):
        monkeypatch.setattr(module, "_BIG", -1)
    world = World(pod("harmless"), *placed[many])
    assert isinstance(world.seen(WEB), Newcomer)
