"""How placed pods see an incoming pod: who differs in what none of their terms asks for is one and the same to them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.intree.affinity import matching_terms as module
from pyscheduler.intree.affinity.counts import IncomingPod, MatchingTerms
from pyscheduler.intree.affinity.matching_terms import ExistingAntiAffinityTerms, MatchingTermsCache, ScoringTerms
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import HOST, IS_WEB, ZONE, has, plugin, term

WEB = pod("web").label("app", "web")
OFF_WEB = pod("keeper").pod_anti_affinity(term(IS_WEB, HOST))
OF_TURN_1 = has("turn", "In", "1")


class IncomingPodFixture:
    """One node, and those who see incoming pods by the terms that keep them off."""

    def __init__(self, *placed: PodBuilder) -> None:
        self.state = ClusterState()
        self.state.set_node(node("n").build())
        self.shapes = PodSignatures()
        self.sight = MatchingTermsCache(ExistingAntiAffinityTerms())
        for each in placed:
            self.place(each)

    def place(self, built: PodBuilder) -> None:
        self.state.place(built.build(self.shapes), "n")

    def seen(self, of: PodBuilder, namespaces: int = 0, **labels: str) -> IncomingPod | MatchingTerms:
        incoming_pod = IncomingPod(of.build(self.shapes).signature, labels)
        return self.sight.of(incoming_pod, self.state.table(), namespaces)


def test_who_differs_in_what_none_asks_for_is_the_same() -> None:
    world = IncomingPodFixture(OFF_WEB)
    seen = [world.seen(WEB.label("turn", str(turn))) for turn in range(3)]
    assert seen[0] == seen[1] == seen[2] != world.seen(pod("db").label("app", "db"))


def test_who_differs_in_what_one_asks_for_is_not() -> None:
    world = IncomingPodFixture(OFF_WEB, pod("picky").pod_anti_affinity(term(OF_TURN_1, HOST)))
    assert world.seen(WEB.label("turn", "1")) != world.seen(WEB.label("turn", "2"))


def test_terms_that_come_and_go_change_it_and_no_others() -> None:
    world = IncomingPodFixture(OFF_WEB)
    before, other = world.seen(WEB), world.seen(pod("db"))
    assert world.seen(WEB) is before, "it is found out once"
    world.place(pod("more").pod_anti_affinity(term(IS_WEB, ZONE)))
    assert world.seen(WEB) != before
    assert world.seen(pod("db")) == other
    world.state.remove("more")
    assert world.seen(WEB) == before


def test_labels_of_namespaces_matter_to_terms_that_choose_by_them() -> None:
    world = IncomingPodFixture(
        pod("far")
        .namespace("elsewhere")
        .pod_anti_affinity(term(IS_WEB, HOST, namespaceSelector={"matchLabels": {"team": "red"}}))
    )
    assert world.seen(WEB, namespaces=1, team="red") != world.seen(WEB, namespaces=2, team="blue")


def test_by_whom_pods_are_drawn_they_are_seen_likewise() -> None:
    world = IncomingPodFixture(
        pod("fan").preferred_pod_affinity(7, term(OF_TURN_1, ZONE)), pod("near").pod_affinity(term(IS_WEB, ZONE))
    )
    one, two = WEB.label("turn", "1"), WEB.label("turn", "2")
    world.sight = MatchingTermsCache(ScoringTerms(required_weight=0))
    assert world.seen(one) != world.seen(two) == world.seen(pod("db"))
    world.sight = MatchingTermsCache(ScoringTerms(required_weight=1))
    assert world.seen(one) != world.seen(two) != world.seen(pod("db"))


@pytest.mark.parametrize("most", [module._MAX_TERMS, -1], ids=["as it is seen", "by all its labels"])
def test_what_draws_a_shape_is_found_out_once(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TERMS", most)
    subject, world = plugin(), IncomingPodFixture(pod("fan").preferred_pod_affinity(7, term(IS_WEB, ZONE)))
    web, nodes = WEB.build(world.shapes), world.state.table()
    assert subject._affinity_weights(web, (ZONE,), nodes) is subject._affinity_weights(web, (ZONE,), nodes)


@pytest.mark.parametrize("many", ["terms of one pod", "terms of all", "bytes of one that has terms"])
def test_where_it_would_be_too_much_newcomers_are_told_apart_by_all_their_labels(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = [term(has("turn", "In", str(i)), HOST) for i in range(module._MAX_TERMS + 1)]
    placed: dict[str, Any] = {
        "terms of one pod": [pod("greedy").pod_anti_affinity(*terms)],
        "terms of all": [pod(f"p{i}").pod_anti_affinity(each) for i, each in enumerate(terms)],
        "bytes of one that has terms": [OFF_WEB],
    }
    if many.startswith("bytes"):
        monkeypatch.setattr(module, "_MAX_BYTES", -1)
    world = IncomingPodFixture(pod("harmless"), *placed[many])
    assert isinstance(world.seen(WEB), IncomingPod)
