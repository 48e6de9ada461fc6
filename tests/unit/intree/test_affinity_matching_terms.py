"""Incoming pods reduced to the existing pods' terms that match them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.intree.affinity import counts
from pyscheduler.intree.affinity import matching_terms as module
from pyscheduler.intree.affinity.counts import ExistingAntiAffinityTerms, IncomingPod, MatchingTerms, ScoringTerms
from pyscheduler.intree.affinity.matching_terms import MatchingTermsCache
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import HOST, IS_WEB, ZONE, has, plugin, term

WEB = pod("web").label("app", "web")
OFF_WEB = pod("keeper").pod_anti_affinity(term(IS_WEB, HOST))
OF_TURN_1 = has("turn", "In", "1")


class TermCacheFixture:
    """One node, and the cache of existing anti-affinity terms that match incoming pods."""

    def __init__(self, *placed: PodBuilder) -> None:
        self.state = ClusterState()
        self.state.set_node(node("n").build())
        self.signatures = PodSignatures()
        self.cache = MatchingTermsCache(ExistingAntiAffinityTerms())
        for each in placed:
            self.place(each)

    def place(self, built: PodBuilder) -> None:
        self.state.place(built.build(self.signatures), "n")

    def matching(self, of: PodBuilder, namespaces: int = 0, **labels: str) -> IncomingPod | MatchingTerms:
        signature = of.build(self.signatures).signature
        return self.cache.of(signature, IncomingPod.of(signature, labels), self.state.table(), namespaces)


def test_incoming_pods_with_the_same_matching_terms_are_equal() -> None:
    cluster = TermCacheFixture(OFF_WEB)
    matching = [cluster.matching(WEB.label("turn", str(turn))) for turn in range(3)]
    assert matching[0] == matching[1] == matching[2] != cluster.matching(pod("db").label("app", "db"))


def test_incoming_pods_with_different_matching_terms_differ() -> None:
    cluster = TermCacheFixture(OFF_WEB, pod("picky").pod_anti_affinity(term(OF_TURN_1, HOST)))
    assert cluster.matching(WEB.label("turn", "1")) != cluster.matching(WEB.label("turn", "2"))


def test_matching_terms_change_only_with_terms_that_match() -> None:
    cluster = TermCacheFixture(OFF_WEB)
    before, other = cluster.matching(WEB), cluster.matching(pod("db"))
    assert cluster.matching(WEB) is before, "the matching terms are cached"
    cluster.place(pod("more").pod_anti_affinity(term(IS_WEB, ZONE)))
    assert cluster.matching(WEB) != before
    assert cluster.matching(pod("db")) == other
    cluster.state.remove("more")
    assert cluster.matching(WEB) == before


def test_namespace_labels_change_matching_terms_of_namespace_selectors() -> None:
    cluster = TermCacheFixture(
        pod("far")
        .namespace("elsewhere")
        .pod_anti_affinity(term(IS_WEB, HOST, namespaceSelector={"matchLabels": {"team": "red"}}))
    )
    assert cluster.matching(WEB, namespaces=1, team="red") != cluster.matching(WEB, namespaces=2, team="blue")


def test_scoring_terms_give_equal_matching_terms() -> None:
    cluster = TermCacheFixture(
        pod("fan").preferred_pod_affinity(7, term(OF_TURN_1, ZONE)), pod("near").pod_affinity(term(IS_WEB, ZONE))
    )
    one, two = WEB.label("turn", "1"), WEB.label("turn", "2")
    cluster.cache = MatchingTermsCache(ScoringTerms(required_weight=0))
    assert cluster.matching(one) != cluster.matching(two) == cluster.matching(pod("db"))
    cluster.cache = MatchingTermsCache(ScoringTerms(required_weight=1))
    assert cluster.matching(one) != cluster.matching(two) != cluster.matching(pod("db"))


@pytest.mark.parametrize("most", [counts.MAX_TERMS, -1], ids=["by matching terms", "by all labels"])
def test_affinity_weights_are_cached_per_signature(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TERMS", most)
    subject, cluster = plugin(), TermCacheFixture(pod("fan").preferred_pod_affinity(7, term(IS_WEB, ZONE)))
    web, nodes = WEB.build(cluster.signatures), cluster.state.table()
    assert subject._affinity_weights(web, (ZONE,), nodes) is subject._affinity_weights(web, (ZONE,), nodes)


TOO_MANY = pytest.mark.parametrize(
    "many",
    [
        "terms of one pod",
        "terms that match",
        "terms that require no label",
        "terms of all pods",
        "bytes of a pod with terms",
    ],
)


def cluster_of(many: str, monkeypatch: pytest.MonkeyPatch) -> TermCacheFixture:
    """Return a cluster with too many terms, all of them by the label `turn` or `app`."""
    numbers = [str(i) for i in range(counts.MAX_TERMS + 1)]
    placed: dict[str, Any] = {
        "terms of one pod": [pod("greedy").pod_anti_affinity(*[term(has("turn", "In", i), HOST) for i in numbers])],
        "terms that match": [off(has("app", "In", "web", i)) for i in numbers],
        "terms that require no label": [off(has("turn", "NotIn", i)) for i in numbers],
    }
    if many == "terms of all pods":
        monkeypatch.setattr(module, "_MAX_EXISTING_TERMS", 0)
    if many == "bytes of a pod with terms":
        monkeypatch.setattr(counts, "_MAX_BYTES", -1)
    return TermCacheFixture(pod("harmless"), *placed.get(many, [OFF_WEB]))


@TOO_MANY
def test_incoming_pods_are_compared_by_selected_labels_if_terms_are_too_many(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = cluster_of(many, monkeypatch)
    first, second = (cluster.matching(WEB.label("turn", turn).label("own", turn)) for turn in ("1", "2"))
    assert isinstance(first, IncomingPod)
    assert first.labels == ({"turn": "1"} if "turn" in first.labels else {"app": "web"})
    assert (first == second) is ("turn" not in first.labels)


@TOO_MANY
def test_pods_of_other_namespaces_are_equal_if_terms_are_too_many(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = cluster_of(many, monkeypatch)
    elsewhere = [WEB.namespace("elsewhere").label("turn", str(turn)) for turn in range(3)]
    matching = [cluster.matching(each) for each in elsewhere]
    assert matching[0] == matching[1] == matching[2]
    for name in ("elsewhere", "everywhere"):
        selected: dict[str, Any] = {"namespaces": [name]} if name == "elsewhere" else {"namespaceSelector": {}}
        cluster.place(pod(name).pod_anti_affinity(term(OF_TURN_1, HOST, **selected)))
        assert cluster.matching(elsewhere[1]) != cluster.matching(elsewhere[2]), name
        cluster.state.remove(name)


def test_hundreds_of_apps_with_terms_of_their_own_are_found_by_their_labels() -> None:
    chart = {"managed-by": "chart", "tier": "front"}
    apps = [{**chart, "app": f"a{i}", "version": "1"} for i in range(300)]
    cluster = TermCacheFixture(*[off({"matchLabels": labels}) for labels in apps])
    matching = cluster.matching(labelled(pod("another"), {**apps[7], "index": "4"}))
    assert isinstance(matching, MatchingTerms)
    assert [each.peers.selector.matches(apps[7]) for each in matching.terms if each.peers.selector] == [True]
    for number, labels in enumerate(apps):
        candidates = cluster.cache._index.candidates(labelled(pod("one"), labels).build(cluster.signatures).signature)
        assert len(candidates) <= 4, f"app {number} is compared with the terms of {len(candidates)} apps"


def test_terms_leave_the_index_with_their_last_pod() -> None:
    repeated, unlabelled = has("app", "In", "web", "web", "db"), has("app", "Exists")
    cluster = TermCacheFixture(off(repeated, "a"), off(repeated, "b"), off(unlabelled, "c"))

    def number() -> int:
        matching = cluster.matching(WEB)
        assert isinstance(matching, MatchingTerms)
        return len(matching.terms)

    numbers = [number()]
    for name in ("a", "b", "c"):
        cluster.state.remove(name)
        numbers.append(number())
    assert numbers == [2, 2, 1, 0]
    assert not [*cluster.cache._index]


def off(selector: dict[str, Any], name: str = "") -> PodBuilder:
    """Return a pod with required anti-affinity to the selected pods."""
    return pod(name or f"off-{selector}").pod_anti_affinity(term(selector, HOST))


def labelled(built: PodBuilder, labels: dict[str, str]) -> PodBuilder:
    """Return the pod with labels."""
    for key, value in labels.items():
        built = built.label(key, value)
    return built
