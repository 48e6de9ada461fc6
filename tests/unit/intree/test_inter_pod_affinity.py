"""InterPodAffinity as a filter: required affinity and anti-affinity, namespaces, dry runs."""

from __future__ import annotations

import pytest

from pyscheduler.api import Code, Rejection, Skip
from pyscheduler.core.state import ClusterState
from pyscheduler.intree import InterPodAffinity
from pyscheduler.testing import PodBuilder, node, pod

from .affinity import APART, DB, HOST, IS_DB, IS_WEB, NEAR, NODES, OFF, WEB, has, plugin, rejected_nodes, term
from .cluster import cycle, table

FRONT = pod("front").label("app", "front")
FAR_B = {"b1": NEAR, "none": NEAR}
ALL_NEAR = dict.fromkeys(("a1", "a2", "b1", "none"), NEAR)
WEB_ON_A = [WEB.on("a1")]


@pytest.mark.parametrize(
    ("of", "running", "out"),
    [
        pytest.param(FRONT.pod_affinity(term()), WEB_ON_A, FAR_B, id="the zone of a web pod"),
        pytest.param(FRONT.pod_affinity(term(key=HOST)), WEB_ON_A, {"a2": NEAR, **FAR_B}, id="the node of a web pod"),
        pytest.param(FRONT.pod_affinity(term(IS_DB)), WEB_ON_A, ALL_NEAR, id="no matching pod"),
        pytest.param(
            FRONT.pod_affinity(term({})),
            [DB.on("b1")],
            {"a1": NEAR, "a2": NEAR, "none": NEAR},
            id="{} matches all pods",
        ),
        pytest.param(FRONT.pod_affinity(term(None)), WEB_ON_A, ALL_NEAR, id="missing selector matches no pod"),
        pytest.param(FRONT.pod_affinity(term(has("app", "NotIn", "db"))), WEB_ON_A, FAR_B, id="NotIn"),
        pytest.param(FRONT.pod_affinity(term(has("app", "Exists"))), WEB_ON_A, FAR_B, id="Exists"),
        pytest.param(FRONT.pod_affinity(term(has("app", "DoesNotExist"))), WEB_ON_A, ALL_NEAR, id="DoesNotExist"),
        pytest.param(FRONT.pod_affinity(term()), [WEB.on("none")], ALL_NEAR, id="on a node outside the topology"),
        pytest.param(FRONT.pod_affinity(term()), [WEB.on("gone")], ALL_NEAR, id="on a deleted node"),
        pytest.param(FRONT.pod_affinity(term()), [WEB.on("a2").deleting()], FAR_B, id="terminating pod counts"),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a1").namespace("other")], ALL_NEAR, id="in another namespace"
        ),
    ],
)
def test_required_affinity_needs_domain_of_matching_pod(
    of: PodBuilder, running: list[PodBuilder], out: dict[str, str]
) -> None:
    assert rejected_nodes(plugin(), of, running) == out


def test_one_pod_must_match_all_affinity_terms() -> None:
    both = FRONT.pod_affinity(term(), term(has("tier", "Exists"), HOST))
    assert rejected_nodes(plugin(), both, [WEB.on("a1"), pod("t").label("tier").on("a1")]) == ALL_NEAR
    of_both = WEB.label("tier").on("a1")
    assert rejected_nodes(plugin(), both, [of_both]) == {"a2": NEAR, **FAR_B}


def test_terms_of_two_topologies_may_be_satisfied_by_two_pods() -> None:
    rack = [node("n1").zone("a").label("rack", "1"), node("n2").zone("b").label("rack", "2")]
    rack += [node("n3").zone("a").label("rack", "2"), node("n4").zone("a")]
    both = FRONT.pod_affinity(term(), term(key="rack"))
    assert rejected_nodes(plugin(), both, [WEB.on("n1"), WEB.uid("w2").on("n2")], rack) == {"n4": NEAR}


@pytest.mark.parametrize(
    ("of", "running", "out"),
    [
        pytest.param(WEB.pod_affinity(term()), [], {"none": NEAR}, id="first pod needs the topology key"),
        pytest.param(WEB.pod_affinity(term(), term(key="rack")), [], ALL_NEAR, id="first pod needs all topology keys"),
        pytest.param(WEB.pod_affinity(term(), term(IS_DB)), [], ALL_NEAR, id="pod must match all of its own terms"),
        pytest.param(
            WEB.namespace("x").pod_affinity(term(namespaces=["y"])),
            [],
            ALL_NEAR,
            id="pod must be in a selected namespace",
        ),
        pytest.param(
            WEB.pod_affinity(term()),
            [WEB.uid("w").on("b1")],
            {"a1": NEAR, "a2": NEAR, "none": NEAR},
            id="second pod joins the first",
        ),
        pytest.param(
            WEB.pod_affinity(term()),
            [WEB.uid("w").on("none")],
            {"none": NEAR},
            id="pod outside the topology does not count",
        ),
        pytest.param(
            WEB.pod_affinity(term(), term(key="rack")),
            [WEB.uid("w").on("a1")],
            ALL_NEAR,
            id="pod in any of the topologies counts",
        ),
    ],
)
def test_first_pod_of_group_satisfies_own_affinity(
    of: PodBuilder, running: list[PodBuilder], out: dict[str, str]
) -> None:
    assert rejected_nodes(plugin(), of, running) == out


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
        pytest.param(FRONT.pod_anti_affinity(term(None)), WEB_ON_A, {}, id="own: missing selector matches no pod"),
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1").deleting()],
            {"a1": APART, "a2": APART},
            id="own: terminating pod counts",
        ),
        pytest.param(WEB, [DB.pod_anti_affinity(term()).on("a1")], {"a1": OFF, "a2": OFF}, id="existing pod"),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term()).on("a1").deleting()],
            {"a1": OFF, "a2": OFF},
            id="existing pod: terminating",
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term()).on("none"), DB.pod_anti_affinity(term()).uid("g").on("gone")],
            {},
            id="existing pod: outside the topology",
        ),
        pytest.param(FRONT, [DB.pod_anti_affinity(term()).on("a1")], {}, id="existing pod: other selector"),
        pytest.param(
            WEB,
            [
                DB.pod_anti_affinity(term(), term(key=HOST)).on("a1"),
                DB.uid("2").pod_anti_affinity(term(key=HOST)).on("b1"),
            ],
            {"a1": OFF, "a2": OFF, "b1": OFF},
            id="existing pods: any term of any pod",
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term(key=HOST), term(IS_DB)).on("a1")],
            {"a1": OFF},
            id="existing pods: each in its own topology",
        ),
        pytest.param(WEB, [DB.pod_affinity(term(IS_DB)).on("a1")], {}, id="existing pod: affinity rejects no pod"),
        pytest.param(
            WEB.pod_affinity(term(IS_DB)).pod_anti_affinity(term(key=HOST)),
            [DB.pod_anti_affinity(term()).on("a1"), WEB.uid("w").on("a1")],
            {"a1": APART, "a2": OFF, **FAR_B},
            id="first reason is reported",
        ),
    ],
)
def test_anti_affinity_of_incoming_and_existing_pods(
    of: PodBuilder, running: list[PodBuilder], out: dict[str, str]
) -> None:
    assert rejected_nodes(plugin(), of, running) == out


def test_only_anti_affinity_rejections_are_resolvable() -> None:
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
    ("of", "running", "skipped"),
    [
        pytest.param(FRONT, [WEB.on("a1")], True, id="no pod has terms"),
        pytest.param(
            FRONT.preferred_pod_affinity(1, term()),
            [WEB.preferred_pod_anti_affinity(1, term()).on("a1")],
            True,
            id="preferences",
        ),
        pytest.param(FRONT, [DB.pod_anti_affinity(term()).on("a1")], True, id="terms with other selector"),
        pytest.param(FRONT, [DB.pod_anti_affinity(term({})).on("none")], True, id="terms outside the topology"),
        pytest.param(FRONT, [DB.pod_anti_affinity(term({})).on("a1")], False, id="matched by existing anti-affinity"),
        pytest.param(FRONT.pod_affinity(term()), [], False, id="own affinity"),
        pytest.param(FRONT.pod_anti_affinity(term()), [], False, id="own anti-affinity"),
    ],
)
def test_pre_filter_skips_pods_that_no_term_concerns(of: PodBuilder, running: list[PodBuilder], skipped: bool) -> None:
    result = plugin().pre_filter(cycle(), of.build(), table(NODES, running))
    assert isinstance(result, Skip) == skipped


# -- namespaces --------------------------------------------------------------------------------------------------

NAMESPACES = {"default": {"team": "red"}, "blue": {"team": "blue"}, "bare": {}}
BLUE, IS_BLUE = WEB.namespace("blue").on("a1"), {"matchLabels": {"team": "blue"}}
IN_A = {"b1": NEAR, "none": NEAR}


@pytest.mark.parametrize(
    ("wanted", "running", "out"),
    [
        pytest.param(term(namespaces=["blue"]), BLUE, IN_A, id="by name"),
        pytest.param(term(namespaces=["blue"]), WEB.on("a1"), ALL_NEAR, id="own namespace is not selected"),
        pytest.param(term(namespaceSelector=IS_BLUE), BLUE, IN_A, id="by label"),
        pytest.param(term(namespaceSelector=IS_BLUE), WEB.on("a1"), ALL_NEAR, id="by label, other namespace"),
        pytest.param(term(namespaces=["bare"], namespaceSelector=IS_BLUE), BLUE, IN_A, id="name or label: label"),
        pytest.param(
            term(namespaces=["bare"], namespaceSelector=IS_BLUE), WEB.namespace("bare").on("a1"), IN_A, id="name"
        ),
        pytest.param(
            term(namespaceSelector={}), WEB.namespace("unseen").on("a1"), IN_A, id="{} selects all namespaces"
        ),
        pytest.param(
            term(namespaceSelector=has("team", "NotIn", "blue")),
            BLUE,
            ALL_NEAR,
            id="selector of unlabelled namespaces selects those only",
        ),
        pytest.param(
            term(namespaceSelector=has("team", "Exists")),
            WEB.namespace("bare").on("a1"),
            ALL_NEAR,
            id="Exists selects labelled namespaces only",
        ),
    ],
)
def test_namespaces_of_incoming_pods_terms(wanted: dict[str, object], running: PodBuilder, out: dict[str, str]) -> None:
    assert rejected_nodes(plugin(NAMESPACES), FRONT.pod_affinity(wanted), [running]) == out


@pytest.mark.parametrize(
    ("namespace", "selector", "rejected"),
    [
        pytest.param("blue", IS_BLUE, True, id="by label"),
        pytest.param("default", IS_BLUE, False, id="other labels"),
        pytest.param("blue", has("team", "NotIn", "blue"), False, id="NotIn does not match"),
        pytest.param("bare", has("team", "NotIn", "blue"), True, id="namespace without labels"),
        pytest.param("unseen", has("team", "DoesNotExist"), True, id="unknown namespace counts as unlabelled"),
        pytest.param("unseen", IS_BLUE, False, id="unknown namespace: label does not match"),
        pytest.param("unseen", {}, True, id="{} selects all namespaces"),
    ],
)
def test_namespaces_of_existing_pods_terms(namespace: str, selector: dict[str, object], rejected: bool) -> None:
    keeper = DB.namespace("keepers").pod_anti_affinity(term({}, namespaceSelector=selector)).on("a1")
    expected = {"a1": OFF, "a2": OFF} if rejected else {}
    assert rejected_nodes(plugin(NAMESPACES), FRONT.namespace(namespace), [keeper]) == expected


# -- bad input ---------------------------------------------------------------------------------------------------

GT = term(has("app", "Gt", "1"))
NO_OPERATOR = '"Gt" is not a valid label selector operator'
EMPTY_KEY = (
    'key: Invalid value: "": name part must be non-empty; name part must consist of alphanumeric characters, '
    "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
    "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        pytest.param(pod().pod_affinity(GT), f"requiredAffinityTerms: {NO_OPERATOR}", id="affinity"),
        pytest.param(pod().pod_anti_affinity(GT), f"requiredAntiAffinityTerms: {NO_OPERATOR}", id="anti-affinity"),
        pytest.param(pod().preferred_pod_affinity(1, GT), f"preferredAffinityTerms: {NO_OPERATOR}", id="preferred"),
        pytest.param(
            pod().pod_affinity(GT).preferred_pod_anti_affinity(1, term(namespaceSelector=has("", "Exists", "x"))),
            f"[requiredAffinityTerms: {NO_OPERATOR}, preferredAntiAffinityTerms: [{EMPTY_KEY}, values: Invalid value: "
            '["x"]: values set must be empty for exists and does not exist]]',
            id="all errors",
        ),
    ],
)
def test_invalid_terms_reject_the_pod(of: PodBuilder, message: str) -> None:
    result = plugin().pre_filter(cycle(), of.build(), table(NODES))
    assert result == Rejection(f"parsing pod: {message}", resolvable=False)


def test_invalid_terms_of_existing_pods_are_ignored() -> None:
    half = DB.pod_anti_affinity(GT, term({})).preferred_pod_affinity(1, term({})).on("a1")
    assert rejected_nodes(plugin(), WEB, [half, DB.uid("d").pod_anti_affinity(term(IS_WEB, HOST)).on("b1")]) == {
        "b1": OFF
    }


def test_more_topology_keys_than_are_cached() -> None:
    keys = [f"key-{i}" for i in range(300)]
    state = ClusterState()
    labelled = node("n3")._with("metadata.labels", dict.fromkeys(keys, "y"))
    for built in (node("n1"), node("n2").label("key-0", "x").label("key-299", "x"), labelled):
        state.set_node(built.build())
    state.table().topology("key-0")
    state.set_node(
        node("n1").label("key-0", "z").build()
    )  # first by node order, but last in the numbering of the values
    state.add_pod(DB.on("n3").build())
    state.add_pod(DB.uid("d").pod_anti_affinity(*(term(key=key) for key in keys)).on("n2").build())
    subject, attempt, cluster = plugin(), cycle(), state.table()
    of = WEB.pod_anti_affinity(*(term(IS_DB, key) for key in keys)).build()
    assert subject.pre_filter(attempt, of, cluster) is None
    plain = [subject.filter(attempt, of, n) for n in cluster]
    assert [r.message for r in plain if r] == ["node(s) didn't match pod anti-affinity rules"] * 2
    statuses = subject.filter_all(attempt, of, cluster)
    assert [statuses.at(i) for i in range(3)] == plain == [None, plain[1], plain[2]]


# -- dry runs ----------------------------------------------------------------------------------------------------

REMOVED, ADDED = -1, 1


@pytest.mark.parametrize(
    ("of", "running", "change", "out"),
    [
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1")],
            (REMOVED, WEB, "a1"),
            {},
            id="conflicting pod is removed",
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term()),
            [WEB.on("a1"), WEB.uid("2").on("a2")],
            (REMOVED, WEB, "a1"),
            {"a1": APART, "a2": APART},
            id="one of two conflicting pods is removed",
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term()), [], (ADDED, WEB, "b1"), {"b1": APART}, id="conflicting pod is added"
        ),
        pytest.param(
            FRONT.pod_anti_affinity(term()), [], (ADDED, WEB, "none"), {}, id="pod is added outside the topology"
        ),
        pytest.param(
            FRONT.pod_affinity(term()), [WEB.on("a1")], (REMOVED, WEB, "a1"), ALL_NEAR, id="matching pod is removed"
        ),
        pytest.param(
            FRONT.pod_affinity(term()),
            [WEB.on("a1")],
            (ADDED, WEB.uid("2"), "b1"),
            {"none": NEAR},
            id="second matching pod is added",
        ),
        pytest.param(FRONT.pod_affinity(term()), [], (ADDED, DB, "b1"), ALL_NEAR, id="other pod is added"),
        pytest.param(
            FRONT.pod_affinity(term(), term(IS_DB)),
            [],
            (ADDED, DB, "b1"),
            ALL_NEAR,
            id="added pod matches one of two terms",
        ),
        pytest.param(
            WEB.uid("n").pod_affinity(term()),
            [WEB.on("a1")],
            (REMOVED, WEB, "a1"),
            {"none": NEAR},
            id="pod becomes the first of its group",
        ),
        pytest.param(
            WEB.uid("n").pod_affinity(term()),
            [],
            (ADDED, WEB, "a1"),
            {"b1": NEAR, "none": NEAR},
            id="pod is no longer the first of its group",
        ),
        pytest.param(
            WEB,
            [DB.pod_anti_affinity(term({})).on("a1")],
            (REMOVED, DB.pod_anti_affinity(term({})), "a1"),
            {},
            id="pod with anti-affinity is removed",
        ),
        pytest.param(
            FRONT.pod_affinity(term({})),
            [WEB.on("a1")],
            (ADDED, DB.pod_anti_affinity(term({}, HOST)), "a2"),
            {"a2": OFF, **FAR_B},
            id="pod with anti-affinity is added",
        ),
    ],
)
def test_dry_run_changes_counts_and_is_reverted(
    of: PodBuilder, running: list[PodBuilder], change: tuple[int, PodBuilder, str], out: dict[str, str]
) -> None:
    subject, attempt, cluster, incoming = plugin(), cycle(), table(NODES, running), of.build()
    assert subject.pre_filter(attempt, incoming, cluster) is None
    before, state = [subject.filter(attempt, incoming, n) for n in cluster], attempt.state()
    pods, other, name = change
    update = subject.add_pod if pods == ADDED else subject.remove_pod
    update(attempt, incoming, other.build(), next(n for n in cluster if n.name == name))
    plain = [subject.filter(attempt, incoming, n) for n in cluster]
    statuses = subject.filter_all(attempt, incoming, cluster)
    assert {n.name for n, r in zip(cluster, plain, strict=True) if r} == set(out)
    assert [r.message.endswith(out[n.name]) for n, r in zip(cluster, plain, strict=True) if r] == [True] * len(out)
    assert [statuses.at(i) for i in range(len(plain))] == plain
    attempt.update_state(state)
    assert [subject.filter(attempt, incoming, n) for n in cluster] == before


# -- args --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [-1, 101])
def test_weights_out_of_range_are_rejected(weight: int) -> None:
    message = rf"^hardPodAffinityWeight: Invalid value: {weight}: not in valid range \[0, 100\]$"
    with pytest.raises(ValueError, match=message):
        InterPodAffinity.Args(hard_pod_affinity_weight=weight)


def test_topology_keys_without_nodes_are_not_counted() -> None:
    state = ClusterState()
    state.set_node(node("n1").label("key-1", "x").build())
    state.add_pod(DB.pod_anti_affinity(*(term(IS_WEB, f"key-{i}") for i in range(1_000))).on("n1").build())
    subject, of = plugin(), WEB.pod_anti_affinity(*(term(IS_DB, f"key-{i}") for i in range(1_000))).build()
    for _ in range(2):
        attempt, cluster = cycle(), state.table()
        assert subject.pre_filter(attempt, of, cluster) is None
        assert [subject.filter(attempt, of, n) is None for n in cluster] == [False]
        assert len(state.placed._counts) == 2
    state.set_node(node("n1").build())
    assert not isinstance(subject.pre_filter(attempt, of, state.table()), Rejection)
    assert [subject.filter(attempt, of, n) for n in state.table()] == [None]
