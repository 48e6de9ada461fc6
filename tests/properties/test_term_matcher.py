"""Terms evaluated together match where each of them matches alone, for any operators, values and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyscheduler.api import NodeTerm, Requirement, Selector, Taint, Toleration
from pyscheduler.api.match import int64, node_term, tolerates
from pyscheduler.api.objects import LabelSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import _term_matcher
from pyscheduler.intree._preferred import ManyPreferences
from pyscheduler.intree._term_matcher import NODE_NAME, MappingRows, NodeRows, TermMatcher, node_requirements
from pyscheduler.intree._tolerations import TolerationSet
from pyscheduler.intree.affinity.counts import (
    AffinityWeight,
    ExistingAntiAffinityCount,
    IncomingPod,
    MatchingTermCount,
    PodsMatchingAllTerms,
)
from pyscheduler.intree.affinity.terms import Peers, Term, WeightedTerm, affinity_terms
from pyscheduler.testing import node, pod
from tests.properties.profiles import assert_caught, quick

KEYS = ("a", "b", "c")
NUMBERS = (
    *("0", "1", "2", "10", "9", "007", "-3", "+5", "-0", "1.5", "1e3", "0x10", " 1", "1_0", "\u0663"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "9" * 63),
)
VALUES = ("", "x", "y", *NUMBERS)
values = st.sampled_from(VALUES)
bounds = st.sampled_from([number for number in NUMBERS if int64(number) is not None])


def one(key: str, operator: str, *wanted: str) -> Requirement:
    return Requirement(key, operator, wanted)


keys = st.sampled_from((*KEYS, "none"))
lists = st.lists(values, min_size=1, max_size=7).map(tuple)
selecting = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(("In", "NotIn")), lists),
    st.builds(Requirement, keys, st.sampled_from(("Exists", "DoesNotExist"))),
)
comparing = st.builds(
    lambda key, operator, bound: one(key, operator, bound), keys, st.sampled_from(("Gt", "Lt")), bounds
)
stated = st.one_of(selecting, comparing).map(lambda r: LabelSelectorRequirement(r.key, r.operator, r.values or None))
unsound = st.builds(
    LabelSelectorRequirement, keys, st.sampled_from(("In", "Exists", "Gt", "Near")), st.sampled_from((None, ("x", "?")))
)
names = st.builds(
    LabelSelectorRequirement,
    st.sampled_from(("metadata.name", "metadata.name", "metadata.uid")),
    st.sampled_from(("In", "NotIn")),
    st.sampled_from(("n0", "n1", "n5", "nowhere")).map(lambda name: (name,)),
)
terms = st.builds(
    NodeSelectorTerm,
    st.none() | st.lists(st.one_of(stated, stated, stated, unsound), max_size=3).map(tuple),
    st.none() | st.lists(names, max_size=2).map(tuple),
)
labels = st.dictionaries(st.sampled_from(KEYS), values)
clusters = st.lists(labels, max_size=20)
term_lists = st.lists(terms, max_size=25)
sizes = st.fixed_dictionaries({"_WINDOW": st.sampled_from((8, 16, 8192)), "_BATCH": st.sampled_from((1, 3, 4096))})


@contextmanager
def block_sizes(sizes: Mapping[str, int]) -> Iterator[None]:
    """Patch the matcher's block sizes."""
    with ExitStack() as stack:
        for name, size in sizes.items():
            stack.enter_context(patch.object(_term_matcher, name, size))
        yield


def match_one_by_one(terms: Sequence[NodeSelectorTerm], cluster: Sequence[Mapping[str, str]]) -> list[bool]:
    return [any(node_term(term).matches(f"n{i}", labels) for term in terms) for i, labels in enumerate(cluster)]


def matcher_of(terms: Sequence[NodeSelectorTerm]) -> TermMatcher:
    return TermMatcher(filter(None, node_requirements(terms)))


def rows_of(cluster: Sequence[Mapping[str, str]]) -> MappingRows:
    return MappingRows([{**labels, NODE_NAME: f"n{i}"} for i, labels in enumerate(cluster)])


def table_of(cluster: Sequence[Mapping[str, str]]) -> NodeRows:
    state = ClusterState()
    for i, labels in enumerate(cluster):
        state.set_node(node(f"n{i}")._with("metadata.labels", dict(labels)).build())
    return NodeRows(state.table())


@quick(150)
@given(term_lists, clusters, sizes)
def test_any_equals_matching_one_by_one(
    terms: list[NodeSelectorTerm], cluster: list[dict[str, str]], sizes: dict[str, int]
) -> None:
    with block_sizes(sizes):
        matcher = matcher_of(terms)
        assert matcher.any(rows_of(cluster)).tolist() == match_one_by_one(terms, cluster)
        assert matcher.any(table_of(cluster)).tolist() == match_one_by_one(terms, cluster)
        for i, labels in enumerate(cluster[:2]):
            assert matcher.any(rows_of([labels])).tolist() == match_one_by_one(terms, [labels]), i


@quick(80)
@given(st.lists(st.tuples(terms, st.integers(-3, 300)), max_size=25), clusters, sizes, st.sampled_from((2, 255)))
def test_total_equals_sum_of_matching_weights(
    weighted: list[tuple[NodeSelectorTerm, int]], cluster: list[dict[str, str]], sizes: dict[str, int], counted: int
) -> None:
    alone = [
        sum(w for term, w in weighted if node_term(term).matches(f"n{i}", labels)) for i, labels in enumerate(cluster)
    ]
    stated = [PreferredSchedulingTerm(weight, term) for term, weight in weighted]
    with block_sizes({**sizes, "_COUNTED": counted}):
        matcher, weights, is_broken = ManyPreferences.of(stated)
        assert matcher.total(rows_of(cluster), weights).tolist() == alone
    assert is_broken == any(node_term(term) == NodeTerm((), ()) for term, _ in weighted)


compared = comparing.map(lambda r: NodeSelectorTerm((LabelSelectorRequirement(r.key, r.operator, r.values),)))
cases = st.tuples(st.lists(compared, max_size=9), clusters)


def compare_bounds(case: tuple[list[NodeSelectorTerm], list[dict[str, str]]]) -> None:
    terms, cluster = case
    assert matcher_of(terms).any(rows_of(cluster)).tolist() == match_one_by_one(terms, cluster)


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("int64", lambda text: int(text) if text.lstrip("+-").isdigit() and text.isascii() else None),
        ("int64", lambda text: None if text.startswith(("+", "-")) else int64(text)),
    ],
    ids=["numbers beyond int64", "no signs"],
)
def test_property_catches_wrong_integer_parsing(part: str, wrong: object) -> None:
    with patch.object(_term_matcher, part, wrong):
        assert_caught(compare_bounds, cases, AssertionError, OverflowError, IndexError, ValueError)


def test_property_catches_inclusive_bound() -> None:
    searchsorted = np.searchsorted

    def inclusive(found: object, wanted: object, side: str = "left") -> object:
        return searchsorted(found, wanted, {"right": "left", "left": "left"}[side])  # type: ignore[call-overload]

    with patch.object(np, "searchsorted", inclusive):
        assert_caught(compare_bounds, cases)


def test_no_terms_match_nothing_and_empty_term_matches_everything() -> None:
    rows = rows_of([{}, {"a": "x"}])
    assert TermMatcher([]).any(rows).tolist() == [False, False]
    assert TermMatcher([()]).any(rows).tolist() == [True, True]


# -- pods ------------------------------------------------------------------------------------------------------------

selectors = st.one_of(st.none(), st.lists(selecting, max_size=3).map(lambda r: Selector(tuple(r))))
namespaces = st.frozensets(st.sampled_from(("default", "x", "y")), max_size=2)
peers = st.builds(Peers, namespaces, selectors, selectors)
pods = st.lists(st.tuples(st.sampled_from(("default", "x")), labels), max_size=8)
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist"))
kinds = st.lists(st.tuples(st.sampled_from(("a", "b")), operators), min_size=40, max_size=60)
MANY = st.lists(st.tuples(peers, st.integers(-5, 5)), min_size=17, max_size=30)


@quick(80)
@given(MANY, pods)
def test_affinity_counts_equal_counting_one_by_one(
    weighted: list[tuple[Peers, int]], placed: list[tuple[str, dict[str, str]]]
) -> None:
    shapes = [
        pod(f"p{i}").namespace(namespace)._with("metadata.labels", labels).build().signature
        for i, (namespace, labels) in enumerate(placed)
    ]
    all_of = tuple(each for each, _ in weighted)
    wishes = tuple(WeightedTerm(Term("zone", each), weight) for each, weight in weighted)
    incoming_pod = IncomingPod.of(pod("new").build().signature, {})
    for count in (
        MatchingTermCount(all_of),
        PodsMatchingAllTerms(all_of),
        AffinityWeight(incoming_pod, "zone", wishes, 1),
        AffinityWeight(incoming_pod, "zone", wishes, 1, weighed=False),
    ):
        assert [int(amount) for amount in count.of_all(shapes)] == [count.of(signature) for signature in shapes], count


@quick(30)
@given(
    kinds,
    labels,
    labels,
    st.sampled_from(("default", "x")),
)
def test_existing_terms_match_incoming_pod_as_one_by_one(
    kinds: list[tuple[str, str]], of_pod: dict[str, str], of_namespace: dict[str, str], namespace: str
) -> None:
    def expression(i: int, key: str, operator: str) -> dict[str, object]:
        wanted = {"values": [("x", "y", "1")[i % 3]]} if operator in ("In", "NotIn") else {}
        return {"key": key, "operator": operator, **wanted}

    stated = [
        {
            "topologyKey": "zone",
            "labelSelector": {"matchExpressions": [expression(i, key, operator)]},
            **({"namespaceSelector": {"matchExpressions": [expression(i + 1, key, operator)]}} if i % 2 else {}),
            **({"namespaces": ["x"]} if i % 3 == 0 else {}),
        }
        for i, (key, operator) in enumerate(kinds)
    ]
    placed = pod("placed").pod_anti_affinity(*stated).build().signature
    assert placed.size > _term_matcher.SMALL
    incoming_pod = IncomingPod.of(
        pod("new").namespace(namespace)._with("metadata.labels", of_pod).build().signature, of_namespace
    )
    alone = sum(incoming_pod.is_matched_by(term) for term in affinity_terms(placed).anti_affinity)
    assert ExistingAntiAffinityCount(incoming_pod, "zone").of(placed) == alone


# -- taints ----------------------------------------------------------------------------------------------------------

texts = st.sampled_from(("", "a", "b"))
effects = st.sampled_from(("", "NoSchedule", "NoExecute"))


@given(
    st.lists(
        st.builds(
            lambda key, operator, value, effect: Toleration(key=key, operator=operator, value=value, effect=effect),
            texts,
            st.sampled_from(("", "Equal", "Exists", "Gt")),
            texts,
            effects,
        )
    ),
    st.builds(lambda key, value, effect: Taint(key=key, value=value, effect=effect), texts, texts, effects),
)
def test_toleration_set_equals_single_tolerations(tolerations: list[Toleration], taint: Taint) -> None:
    assert TolerationSet(tolerations).tolerates(taint) is any(tolerates(each, taint) for each in tolerations)


@pytest.mark.parametrize("text", VALUES)
def test_int64_equals_strconv_parse_int(text: str) -> None:
    strict = text.isascii() and text.lstrip("+-").isdigit() and len(text) - len(text.lstrip("+-")) < 2
    expected = int(text) if strict and -(2**63) <= int(text) < 2**63 else None
    assert int64(text) == expected
