"""InterPodAffinity as a filter: which nodes are near enough to some pods and far enough from others."""

from __future__ import annotations

import pytest

from pyscheduler.api import Code, Rejection, Skip
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import InterPodAffinity
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import APART, DB, HOST, IS_DB, IS_WEB, NEAR, NODES, OFF, WEB, has, kept_out, plugin, term
from .cluster import cycle, table

FRONT = pod("front").label("app", "front")
FAR_B = {"b1": NEAR, "none": NEAR}
ALL_NEAR = dict.fromkeys(("a1", "a2", "b1", "none"), NEAR)
WEB_ON_A = [WEB.on("a1")]


@pytest.mark.parametrize(
    ("of", "running", "out"),
    [
        pytest.param(FRONT.pod_affinity(term()), WEB_ON_A, FAR_B, id="the zone of a web pod"),
        pytest.param(FRONT.pod_affinity(term(key=HOST)), WEB_ON_A, {"a2": NEAR, **FAR_B}, id="its very node"),
        pytest.param(FRONT.pod_affinity(term(IS_DB)), WEB_ON_A, ALL_NEAR, id="nobody to be near to"),
        pytest.param(
            FRONT.pod_affinity(term({})), [DB.on("b1")], {"a1": NEAR, "a2": NEAR, "none": NEAR}, id="{} means anyone"
        ),
        pytest.param(FRONT.pod_affinity(term(None)), WEB_ON_A, ALL_NEAR, id="no selector means nobody"),
        pytest.param(FRONT.pod_affinity(term(has("app", "NotIn", "db"))), WEB_ON_A, FAR_B, id="NotIn"),
        pytest.param(FRONT.pod_affinity(term(has("app", "Exists"))), WEB_ON_A, FAR_B, id="Exists"),
        pytest.param(FRONT.pod_affinity(term(has("app", "DoesNotExist"))), WEB_ON_A, ALL_NEAR, id="DoesNotExist"),
        pytest.param(FRONT.pod_affinity(term()), [WEB.on("none")], ALL_NEAR, id="on a node outside the topology"),
        pytest.param(FRONT.pod_affinity(term()), [WEB.on("gone")], ALL_NEAR, id="on a node that is not known"),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a2").deleting()], FAR_B, id="on its way out, but still there"
        ),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a1").namespace("other")], ALL_NEAR, id="in another namespace"
        ),
    ],
)
def test_affinity_wants_the_domain_of_others(of: PodBuilder, running: list[PodBuilder], out: dict[str, str]) -> None:
    assert kept_out(plugin(), of, running) == out


def test_one_pod_must_answer_all_terms() -> None:
    both = FRONT.pod_affinity(term(), term(has("tier", "Exists"), HOST))
    assert kept_out(plugin(), both, [WEB.on("a1"), pod("t").label("tier").on("a1")]) == ALL_NEAR
    of_both = WEB.label("tier").on("a1")
    assert kept_out(plugin(), both, [of_both]) == {"a2": NEAR, **FAR_B}


def test_terms_of_two_topologies_may_be_met_by_two_pods() -> None:
    rack = [node("n1").zone("a").label("rack", "1"), node("n2").zone("b").label("rack", "2")]
    rack += [node("n3").zone("a").label("rack", "2"), node("n4").zone("a")]
    both = FRONT.pod_affinity(term(), term(key="rack"))
    assert kept_out(plugin(), both, [WEB.on("n1"), WEB.uid("w2").on("n2")], rack) == {"n4": NEAR}


@pytest.mark.parametrize(
    ("of", "running", "out"),
    [
        pytest.param(WEB.pod_affinity(term()), [], {"none": NEAR}, id="the first goes where the topology is"),
        pytest.param(WEB.pod_affinity(term(), term(key="rack")), [], ALL_NEAR, id="all of the topologies"),
        pytest.param(WEB.pod_affinity(term(), term(IS_DB)), [], ALL_NEAR, id="it must be meant by all of its terms"),
        pytest.param(WEB.namespace("x").pod_affinity(term(namespaces=["y"])), [], ALL_NEAR, id="in its own namespace"),
        pytest.param(
            WEB.pod_affinity(term()), [WEB.uid("w").on("b1")], {"a1": NEAR, "a2": NEAR, "none": NEAR}, id="the next"
        ),
        pytest.param(
            WEB.pod_affinity(term()), [WEB.uid("w").on("none")], {"none": NEAR}, id="one outside does not count"
        ),
        pytest.param(
            WEB.pod_affinity(term(), term(key="rack")),
            [WEB.uid("w").on("a1")],
            ALL_NEAR,
            id="one in any of the topologies does",
        ),
    ],
)
def test_the_first_of_its_kind(of: PodBuilder, running: list[PodBuilder], out: dict[str, str]) -> None:
    assert kept_out(plugin(), of, running) == out


@pytest.mark.parametrize(
    ("of", "running", "out"),
    [
        pytest.param(
            FRONT.pod_anti_affinity(term()), WEB_ON_A, {"a1": APART, "a2": APART}, id="own: not the zone of a web pod"
        ),
        pytest.param(FRONT.pod_anti_affinity(term(key=HOST)), WEB_ON_A, {"a1": APART}, id="own: not its node"),
        pytest.param(
            FRONT.pod_anti_affinity(term(key=HOST), term(IS_DB)),
            [WEB.on("a1"), DB.on("b1")],
            {"a1": APART, "b1": APART},
            id="any term",
        ),
        pytest.param(FRONT.pod_anti_affinity(term(None)), WEB_ON_A, {}, id="own: no selector means nobody"),
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1").deleting()],
            {"a1": APART, "a2": APART},
            id="own: on its way out",
        ),
        pytest.param(WEB, [DB.pod_anti_affinity(term()).on("a1")], {"a1": OFF, "a2": OFF}, id="theirs"),
        pytest.param(
            WEB, [DB.pod_anti_affinity(term()).on("a1").deleting()], {"a1": OFF, "a2": OFF}, id="theirs: on its way out"
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term()).on("none"), DB.pod_anti_affinity(term()).uid("g").on("gone")],
            {},
            id="theirs: nowhere",
        ),
        pytest.param(FRONT, [DB.pod_anti_affinity(term()).on("a1")], {}, id="theirs: about others"),
        pytest.param(
            WEB,
            [
                DB.pod_anti_affinity(term(), term(key=HOST)).on("a1"),
                DB.uid("2").pod_anti_affinity(term(key=HOST)).on("b1"),
            ],
            {"a1": OFF, "a2": OFF, "b1": OFF},
            id="theirs: any term of any pod",
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term(key=HOST), term(IS_DB)).on("a1")],
            {"a1": OFF},
            id="theirs: each in its own topology",
        ),
        pytest.param(WEB, [DB.pod_affinity(term(IS_DB)).on("a1")], {}, id="their affinity keeps nobody off"),
        pytest.param(
            WEB.pod_affinity(term(IS_DB)).pod_anti_affinity(term(key=HOST)),
            [DB.pod_anti_affinity(term()).on("a1"), WEB.uid("w").on("a1")],
            {"a1": APART, "a2": OFF, **FAR_B},
            id="the first reason is told",
        ),
    ],
)
def test_anti_affinity_of_either_side(of: PodBuilder, running: list[PodBuilder], out: dict[str, str]) -> None:
    assert kept_out(plugin(), of, running) == out


def test_what_evicting_pods_may_change() -> None:
    cluster, attempt = (
        table(NODES, [*WEB_ON_A, DB.pod_anti_affinity(term(has("app", "In", "front"))).on("b1")]),
        cycle(),
    )
    of = FRONT.pod_affinity(term(has("app", "Exists"))).pod_anti_affinity(term(key=HOST)).build()
    subject = plugin()
    assert subject.pre_filter(attempt, of, cluster) is None
    codes = {n.name: r.code for n in cluster if (r := subject.filter(attempt, of, n))}
    unresolvable = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert codes == {"a1": Code.UNSCHEDULABLE, "b1": Code.UNSCHEDULABLE, "none": unresolvable}


@pytest.mark.parametrize(
    ("of", "running", "left_alone"),
    [
        pytest.param(FRONT, [WEB.on("a1")], True, id="nobody has terms"),
        pytest.param(
            FRONT.preferred_pod_affinity(1, term()),
            [WEB.preferred_pod_anti_affinity(1, term()).on("a1")],
            True,
            id="preferences",
        ),
        pytest.param(FRONT, [DB.pod_anti_affinity(term()).on("a1")], True, id="terms about others"),
        pytest.param(FRONT, [DB.pod_anti_affinity(term({})).on("none")], True, id="terms without a place"),
        pytest.param(FRONT, [DB.pod_anti_affinity(term({})).on("a1")], False, id="kept off"),
        pytest.param(FRONT.pod_affinity(term()), [], False, id="own affinity"),
        pytest.param(FRONT.pod_anti_affinity(term()), [], False, id="own anti-affinity"),
    ],
)
def test_pods_without_a_say_are_left_alone(of: PodBuilder, running: list[PodBuilder], left_alone: bool) -> None:
    answer = plugin().pre_filter(cycle(), of.build(), table(NODES, running))
    assert isinstance(answer, Skip) == left_alone


# -- namespaces --------------------------------------------------------------------------------------------------

NAMESPACES = {"default": {"team": "red"}, "blue": {"team": "blue"}, "bare": {}}
BLUE, IS_BLUE = WEB.namespace("blue").on("a1"), {"matchLabels": {"team": "blue"}}
IN_A = {"b1": NEAR, "none": NEAR}


@pytest.mark.parametrize(
    ("wanted", "running", "out"),
    [
        pytest.param(term(namespaces=["blue"]), BLUE, IN_A, id="by name"),
        pytest.param(term(namespaces=["blue"]), WEB.on("a1"), ALL_NEAR, id="then its own is not meant"),
        pytest.param(term(namespaceSelector=IS_BLUE), BLUE, IN_A, id="by label"),
        pytest.param(term(namespaceSelector=IS_BLUE), WEB.on("a1"), ALL_NEAR, id="by label, others not"),
        pytest.param(term(namespaces=["bare"], namespaceSelector=IS_BLUE), BLUE, IN_A, id="either will do: label"),
        pytest.param(
            term(namespaces=["bare"], namespaceSelector=IS_BLUE), WEB.namespace("bare").on("a1"), IN_A, id="name"
        ),
        pytest.param(term(namespaceSelector={}), WEB.namespace("unseen").on("a1"), IN_A, id="{} means all"),
        pytest.param(
            term(namespaceSelector=has("team", "NotIn", "blue")),
            BLUE,
            IN_A,
            id="what chooses unlabelled ones, chooses all",
        ),
        pytest.param(
            term(namespaceSelector=has("team", "Exists")),
            WEB.namespace("bare").on("a1"),
            ALL_NEAR,
            id="Exists does not",
        ),
    ],
)
def test_namespaces_of_the_pods_own_terms(wanted: dict[str, object], running: PodBuilder, out: dict[str, str]) -> None:
    assert kept_out(plugin(NAMESPACES), FRONT.pod_affinity(wanted), [running]) == out


@pytest.mark.parametrize(
    ("namespace", "selector", "kept_off"),
    [
        pytest.param("blue", IS_BLUE, True, id="by label"),
        pytest.param("default", IS_BLUE, False, id="other labels"),
        pytest.param("blue", has("team", "NotIn", "blue"), False, id="negative selectors are taken at their word"),
        pytest.param("bare", has("team", "NotIn", "blue"), True, id="no labels"),
        pytest.param("unseen", has("team", "DoesNotExist"), True, id="not seen: as if without labels"),
        pytest.param("unseen", IS_BLUE, False, id="not seen: no label matches"),
        pytest.param("unseen", {}, True, id="{} means all"),
    ],
)
def test_namespaces_of_the_terms_of_others(namespace: str, selector: dict[str, object], kept_off: bool) -> None:
    keeper = DB.namespace("keepers").pod_anti_affinity(term({}, namespaceSelector=selector)).on("a1")
    expected = {"a1": OFF, "a2": OFF} if kept_off else {}
    assert kept_out(plugin(NAMESPACES), FRONT.namespace(namespace), [keeper]) == expected


# -- bad input ---------------------------------------------------------------------------------------------------

GT = term(has("app", "Gt", "1"))
NO_OPERATOR = '"Gt" is not a valid label selector operator'
EMPTY_KEY = (
    'key: Invalid value: "": name part must be non-empty; name part must consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
    "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        pytest.param(pod().pod_affinity(GT), f"requiredAffinityTerms: {NO_OPERATOR}", id="affinity"),
        pytest.param(pod().pod_anti_affinity(GT), f"requiredAntiAffinityTerms: {NO_OPERATOR}", id="anti-affinity"),
        pytest.param(pod().preferred_pod_affinity(1, GT), f"preferredAffinityTerms: {NO_OPERATOR}", id="preferred"),
        pytest.param(
            pod().pod_affinity(GT).preferred_pod_anti_affinity(1, term(namespaceSelector=has("", "Exists", "x"))),
            f"[requiredAffinityTerms: {NO_OPERATOR}, preferredAntiAffinityTerms: [{EMPTY_KEY}, values: Invalid value: "
            '["x"]: values set must be empty for exists and does not exist]]',
            id="everything that is wrong",
        ),
    ],
)
def test_terms_that_cannot_be_read_reject_the_pod(of: PodBuilder, told: str) -> None:
    answer = plugin().pre_filter(cycle(), of.build(), table(NODES))
    assert answer == Rejection(f"parsing pod: {told}", resolvable=False)


def test_terms_of_others_that_cannot_be_read_are_passed_over() -> None:
    half = DB.pod_anti_affinity(GT, term({})).preferred_pod_affinity(1, term({})).on("a1")
    assert kept_out(plugin(), WEB, [half, DB.uid("d").pod_anti_affinity(term(IS_WEB, HOST)).on("b1")]) == {"b1": OFF}


def test_more_topology_keys_than_are_remembered() -> None:
    keys = [f"key-{i}" for i in range(300)]
    state = ClusterState()
    labelled = node("n3")._with("metadata.labels", dict.fromkeys(keys, "y"))
    for built in (node("n1"), node("n2").label("key-0", "x").label("key-299", "x"), labelled):
        state.set_node(built.build())
    state.table().topology("key-0")
    state.set_node(node("n1").label("key-0", "z").build())  # first now, but last when the values were numbered
    state.add_pod(DB.on("n3").build())
    state.add_pod(DB.uid("d").pod_anti_affinity(*(term(key=key) for key in keys)).on("n2").build())
    subject, attempt, cluster = plugin(), cycle(), state.table()
    of = WEB.pod_anti_affinity(*(term(IS_DB, key) for key in keys)).build()
    assert subject.pre_filter(attempt, of, cluster) is None
    plain = [subject.filter(attempt, of, n) for n in cluster]
    assert [r.message for r in plain if r] == ["node(s) didn't match pod anti-affinity rules"] * 2
    verdicts = subject.filter_all(attempt, of, cluster)
    assert [verdicts.at(i) for i in range(3)] == plain == [None, plain[1], plain[2]]


# -- trials ------------------------------------------------------------------------------------------------------

REMOVED, ADDED = -1, 1


@pytest.mark.parametrize(
    ("of", "running", "change", "out"),
    [
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1")],
            (REMOVED, WEB, "a1"),
            {},
            id="the one to keep apart from goes",
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1"), WEB.uid("2").on("a2")],
            (REMOVED, WEB, "a1"),
            {"a1": APART, "a2": APART},
            id="one of two goes",
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term()), [], (ADDED, WEB, "b1"), {"b1": APART}, id="one to keep apart from comes"
        ),
        pytest.param(FRONT.pod_anti_affinity(term()), [], (ADDED, WEB, "none"), {}, id="outside the topology"),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a1")], (REMOVED, WEB, "a1"), ALL_NEAR, id="the one to be near to goes"
        ),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a1")], (ADDED, WEB.uid("2"), "b1"), {"none": NEAR}, id="another comes"
        ),
        pytest.param(FRONT.pod_affinity(term()), [], (ADDED, DB, "b1"), ALL_NEAR, id="somebody else comes"),
        pytest.param(
            FRONT.pod_affinity(term(), term(IS_DB)), [], (ADDED, DB, "b1"), ALL_NEAR, id="one term is not enough"
        ),
        pytest.param(
            WEB.uid("n").pod_affinity(term()),
            [WEB.on("a1")],
            (REMOVED, WEB, "a1"),
            {"none": NEAR},
            id="it becomes the first",
        ),
        pytest.param(
            WEB.uid("n").pod_affinity(term()),
            [],
            (ADDED, WEB, "a1"),
            {"b1": NEAR, "none": NEAR},
            id="it is no longer the first",
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term({})).on("a1")],
            (REMOVED, DB.pod_anti_affinity(term({})), "a1"),
            {},
            id="a keeper goes",
        ),
        pytest.param(
            FRONT.pod_affinity(term({})),
            [WEB.on("a1")],
            (ADDED, DB.pod_anti_affinity(term({}, HOST)), "a2"),
            {"a2": OFF, **FAR_B},
            id="comes",
        ),
    ],
)
def test_trials_are_counted_and_leave_no_trace(
    of: PodBuilder, running: list[PodBuilder], change: tuple[int, PodBuilder, str], out: dict[str, str]
) -> None:
    subject, attempt, cluster, incoming = plugin(), cycle(), table(NODES, running), of.build()
    assert subject.pre_filter(attempt, incoming, cluster) is None
    before, state = [subject.filter(attempt, incoming, n) for n in cluster], attempt.state()
    pods, other, name = change
    tell = subject.add_pod if pods == ADDED else subject.remove_pod
    tell(attempt, incoming, other.build(), next(n for n in cluster if n.name == name))
    plain = [subject.filter(attempt, incoming, n) for n in cluster]
    verdicts = subject.filter_all(attempt, incoming, cluster)
    assert {n.name for n, r in zip(cluster, plain, strict=True) if r} == set(out)
    assert [r.message.endswith(out[n.name]) for n, r in zip(cluster, plain, strict=True) if r] == [True] * len(out)
    assert [verdicts.at(i) for i in range(len(plain))] == plain
    attempt.update_state(state)
    assert [subject.filter(attempt, incoming, n) for n in cluster] == before


# -- args --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-1, 101])
def test_weights_out_of_range_are_refused(weight: int) -> None:
    told = rf"^hardPodAffinityWeight: Invalid value: {weight}: not in valid range \[0, 100\]$"
    with pytest.raises(ValueError, match=told):
        InterPodAffinity.Args(hard_pod_affinity_weight=weight)


def test_topologies_that_no_node_has_are_not_counted_by() -> None:
    state = ClusterState()
    state.set_node(node("n1").label("key-1", "x").build())
    state.add_pod(DB.pod_anti_affinity(*(term(IS_WEB, f"key-{i}") for i in range(1_000))).on("n1").build())
    subject, of = plugin(), WEB.pod_anti_affinity(*(term(IS_DB, f"key-{i}") for i in range(1_000))).build()
    for _ in range(2):
        attempt, cluster = cycle(), state.table()
        assert subject.pre_filter(attempt, of, cluster) is None
        assert [subject.filter(attempt, of, n) is None for n in cluster] == [False]
        assert len(state.placed._sums) == 2
    state.set_node(node("n1").build())
    assert not isinstance(subject.pre_filter(attempt, of, state.table()), Rejection)
    assert [subject.filter(attempt, of, n) for n in state.table()] == [None]
