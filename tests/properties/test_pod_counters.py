"""Counts of placed pods equal a sum over all pods, whichever pods they select."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import PodCount, PodSignature, Requirement, Selector
from pyscheduler.core.state import ClusterState, PodSignatures
from pyscheduler.core.state import placed as placed_pods
from pyscheduler.intree.affinity.counts import (
    AffinityWeight,
    ExistingAntiAffinityCount,
    MatchingTermCount,
    MatchingTerms,
    PodsMatchingAllTerms,
)
from pyscheduler.intree.affinity.terms import Peers, Term, WeightedTerm, affinity_terms
from pyscheduler.intree.spread.constraints import MatchingPodCount
from pyscheduler.testing import PodBuilder, node, pod
from tests.properties.profiles import quick

ZONE = "zone"
NODES = ("n1", "n2")
VALUES = st.sampled_from(["1", "2"])
NAMESPACES = st.sampled_from(["red", "red", "blue"])
KEYS = st.sampled_from(["app", "tier"])
ONE_OF = st.builds(Requirement, KEYS, st.just("In"), st.lists(VALUES, min_size=1, max_size=2).map(tuple))
OTHERS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Requirement, KEYS, st.just("NotIn"), st.tuples(VALUES)),
)
SELECTORS = st.one_of(
    st.lists(ONE_OF, min_size=1, max_size=2).map(lambda found: Selector(tuple(found))),
    st.lists(ONE_OF | OTHERS, max_size=2).map(lambda found: Selector(tuple(found))),
)
PEERS = st.builds(
    Peers,
    st.frozensets(NAMESPACES),
    st.sampled_from([None, Selector(()), Selector((Requirement("team", "In", ("a",)),))]),
    st.none() | SELECTORS,
)
TERM = st.fixed_dictionaries(
    {
        "topologyKey": st.just(ZONE),
        "labelSelector": st.fixed_dictionaries({"matchLabels": st.dictionaries(st.just("app"), VALUES, max_size=1)}),
        "namespaces": st.lists(NAMESPACES, max_size=1),
    }
)


@dataclass(frozen=True)
class App1(PodCount):
    """Count that does not declare which pods it selects."""

    terminating: bool = True

    def of(self, signature: PodSignature) -> int:
        return 7 * (signature.labels.get("app") == "1")


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    """Return a pod with labels, and perhaps with affinity."""
    labels = draw(st.dictionaries(st.sampled_from(["app", "tier"]), VALUES, max_size=2))
    built = pod(name).namespace(draw(NAMESPACES))
    for key, value in labels.items():
        built = built.label(key, value)
    for term in draw(st.lists(TERM, max_size=2)):
        built = built.pod_anti_affinity(term)
    for term in draw(st.lists(TERM, max_size=1)):
        built = built.preferred_pod_affinity(5, term)
    return built.deleting() if draw(st.booleans()) else built


@quick(250)
@given(st.data())
def test_counts_equal_a_sum_over_all_pods(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed_pods, "MOST_COUNTS", data.draw(st.integers(2, 12)))
        check(data)


def check(data: st.DataObject) -> None:
    state, signatures = ClusterState(), PodSignatures()
    for name in NODES:
        state.set_node(node(name).label(ZONE, name).build())
    built = [data.draw(pods(f"p{i}")).build(signatures) for i in range(data.draw(st.integers(1, 8)))]
    existing = [term for each in built for term in affinity_terms(each.signature).anti_affinity]
    preferred = [term for each in built for term, _ in affinity_terms(each.signature).preferred]
    own = data.draw(st.lists(PEERS, min_size=1, max_size=3).map(tuple))
    counts: list[PodCount] = [
        App1(),
        App1(terminating=False),
        MatchingPodCount("red", data.draw(SELECTORS)),
        *[MatchingPodCount("red", Selector((each,))) for each in data.draw(st.lists(ONE_OF, max_size=3))],
        PodsMatchingAllTerms(own),
        MatchingTermCount(own),
        ExistingAntiAffinityCount(MatchingTerms(_some(data, existing)), ZONE),
        AffinityWeight(
            MatchingTerms(_some(data, preferred)), ZONE, tuple(WeightedTerm(Term(ZONE, each), 3) for each in own), 1
        ),
    ]
    placed: dict[str, str] = {}
    for chosen in data.draw(st.lists(st.sampled_from(built), min_size=4, max_size=24)):
        if chosen.uid in placed:
            state.remove(chosen.uid)
            del placed[chosen.uid]
        else:
            placed[chosen.uid] = data.draw(st.sampled_from(NODES))
            state.place(chosen, placed[chosen.uid])
        for count in data.draw(st.lists(st.sampled_from(counts))):
            cells = state.table().count_pods(count).tolist()
            assert cells == [_sum(count, state, name) for name in NODES], count
    for uid in placed:
        state.remove(uid)
    assert not any(state.placed._index._sets.values()), "the sets are still in the index"


def _some(data: st.DataObject, terms: list[Term]) -> frozenset[Term]:
    return frozenset(data.draw(st.lists(st.sampled_from(terms), max_size=2)) if terms else [])


def _sum(count: PodCount, state: ClusterState, name: str) -> int:
    info = state.info(name)
    assert info is not None
    return sum(count.of(each.signature) for each in info.pods.values() if count.terminating or not each.deleting)
