"""NodeAffinity: filtering, node names and scores by nodeSelector and node affinity."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from pyscheduler.api import SKIP_SIGNATURE_GROUP, Action, ClusterEvent, NodeNames, Rejection, StatusError
from pyscheduler.api.objects import NodeAffinity as NodeAffinityObject
from pyscheduler.intree import NodeAffinity
from pyscheduler.testing import PodBuilder, node, pod

from .cluster import Reasons, build, cycle, final_scores, node_added, node_updated, reasons, requeues, scores, table

MISMATCH = ("node(s) didn't match Pod's node affinity/selector",)
ENFORCED = ("node(s) didn't match scheduler-enforced node affinity",)
NODES = [node("ssd").label("disk", "ssd").label("gen", "7"), node("hdd").label("disk", "hdd"), node("bare")]


def labels(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def names(operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


def plugin(**added: Any) -> NodeAffinity:
    return build(NodeAffinity, added_affinity=msgspec.convert(added, NodeAffinityObject) if added else None)


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        pytest.param(pod().node_selector(disk="ssd"), ["ssd"], id="nodeSelector"),
        pytest.param(pod().node_selector(disk="ssd", gen="8"), [], id="nodeSelector, all of it"),
        pytest.param(pod().spec(nodeSelector={}), ["ssd", "hdd", "bare"], id="empty nodeSelector"),
        pytest.param(pod().node_affinity(labels("disk", "In", "ssd", "nvme")), ["ssd"], id="In"),
        pytest.param(pod().node_affinity(labels("disk", "NotIn", "ssd")), ["hdd", "bare"], id="NotIn, label or not"),
        pytest.param(pod().node_affinity(labels("disk", "Exists")), ["ssd", "hdd"], id="Exists"),
        pytest.param(pod().node_affinity(labels("disk", "DoesNotExist")), ["bare"], id="DoesNotExist"),
        pytest.param(pod().node_affinity(labels("gen", "Gt", "6")), ["ssd"], id="Gt"),
        pytest.param(pod().node_affinity(labels("gen", "Gt", "7")), [], id="Gt excludes equal"),
        pytest.param(pod().node_affinity(labels("gen", "Lt", "10")), ["ssd"], id="Lt compares numbers"),
        pytest.param(pod().node_affinity(labels("disk", "Lt", "10")), [], id="Lt of a label that is no number"),
        pytest.param(pod().node_affinity(names("In", "hdd")), ["hdd"], id="by name"),
        pytest.param(pod().node_affinity(names("NotIn", "hdd")), ["ssd", "bare"], id="by name, not"),
        pytest.param(
            pod().node_affinity(labels("gen", "Exists"), names("In", "bare")), ["ssd", "bare"], id="any term is enough"
        ),
        pytest.param(
            pod().node_affinity({**labels("disk", "Exists"), **names("NotIn", "hdd")}), ["ssd"], id="a whole term"
        ),
        pytest.param(pod().node_affinity({}), [], id="an empty term matches nothing"),
        pytest.param(pod().node_affinity(), [], id="no terms match nothing"),
        pytest.param(pod().node_affinity(names("In", "ssd", "hdd")), [], id="invalid term: two names"),
        pytest.param(pod().node_affinity(labels("disk", "Exists", "x")), [], id="invalid term: Exists with value"),
        pytest.param(pod().node_affinity(labels("disk", "Near", "x")), [], id="invalid term: operator"),
        pytest.param(pod().node_selector(disk="ssd").node_affinity(labels("gen", "Lt", "7")), [], id="both must match"),
    ],
)
def test_filter_by_node_selector_and_affinity(of: PodBuilder, fits: list[str]) -> None:
    wanted: list[Reasons] = [None if n.manifest["metadata"]["name"] in fits else MISMATCH for n in NODES]
    affinity = plugin()
    statuses = affinity.filter_all(cycle(), of.build(), table(NODES))
    assert [r.reasons if (r := statuses.at(i)) else None for i in range(len(NODES))] == wanted
    plain = [affinity.filter(cycle(), of.build(), n) for n in table(NODES)]
    assert [r.reasons if r else None for r in plain] == wanted
    assert not any(r.resolvable for r in plain if r)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        pytest.param(pod(), SKIP_SIGNATURE_GROUP, id="no selector or affinity"),
        pytest.param(pod().node_selector(disk="ssd"), None, id="nodeSelector gives no names"),
        pytest.param(pod().node_affinity(names("In", "a")), NodeNames(frozenset("a")), id="one name"),
        pytest.param(pod().node_affinity(names("In", "a"), names("In", "b")), NodeNames(frozenset("ab")), id="or"),
        pytest.param(pod().node_affinity(names("In", "a"), labels("disk", "Exists")), None, id="term without names"),
        pytest.param(pod().node_affinity(names("NotIn", "a")), None, id="NotIn gives no names"),
        pytest.param(
            pod().node_affinity({"matchFields": names("In", "a")["matchFields"] + names("In", "b")["matchFields"]}),
            Rejection("pod affinity terms conflict", resolvable=False),
            id="two names at once",
        ),
    ],
)
def test_pre_filter_returns_node_names(of: PodBuilder, expected: object) -> None:
    assert plugin().pre_filter(cycle(), of.build(), table(NODES)) == expected


def test_preferred_terms_are_scored() -> None:
    of = (
        pod()
        .preferred_node_affinity(30, labels("disk", "Exists"))
        .preferred_node_affinity(70, labels("disk", "In", "ssd"))
    )
    of = of.preferred_node_affinity(0, labels("disk", "DoesNotExist")).preferred_node_affinity(50, {})
    assert scores(plugin(), of, NODES) == [100, 30, 0]
    less = (
        pod().preferred_node_affinity(2, labels("disk", "Exists")).preferred_node_affinity(1, labels("gen", "Exists"))
    )
    assert final_scores(plugin(), less, NODES) == [100, 66, 0]


@pytest.mark.parametrize(
    ("operator", "value", "error"),
    [
        ("Gt", "high", "values[0]: Invalid value: \"high\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("Gt", "-4", 'values[0][disk]: Invalid value: "-4": a valid label must be an empty string or consist of'),
        ("In", "a b", 'values[0][disk]: Invalid value: "a b": a valid label must be an empty string or consist of'),
        ("Near", "a", 'operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists"'),
    ],
)
def test_invalid_preference_raises(operator: str, value: str, error: str) -> None:
    """The API server does not validate values of preferences."""
    with pytest.raises(StatusError, match=re.escape(f"[1].matchExpressions[0].{error}")):
        scores(
            plugin(),
            pod().preferred_node_affinity(1, {}).preferred_node_affinity(1, labels("disk", operator, value)),
            NODES,
        )


def test_pre_score_skips_pod_without_preferences() -> None:
    assert plugin().pre_score(cycle(), pod().build(), table(NODES)) is SKIP_SIGNATURE_GROUP


def test_added_affinity_applies_to_every_pod() -> None:
    required = {"nodeSelectorTerms": [labels("disk", "Exists")]}
    enforced = plugin(requiredDuringSchedulingIgnoredDuringExecution=required)
    assert reasons(enforced, pod(), NODES) == [None, None, ENFORCED]
    assert reasons(enforced, pod().node_selector(gen="7"), NODES) == [None, MISMATCH, ENFORCED]
    preferred = [{"weight": 5, "preference": labels("gen", "Exists")}]
    liking = plugin(preferredDuringSchedulingIgnoredDuringExecution=preferred)
    assert scores(liking, pod().preferred_node_affinity(7, labels("disk", "Exists")), NODES) == [12, 7, 0]


@pytest.mark.parametrize(
    ("event", "requeued"),
    [
        pytest.param(node_added(NODES[0]), True, id="a matching node is added"),
        pytest.param(node_added(NODES[2]), False, id="another node is added"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, NODES[2], NODES[0]), True, id="a node matches now"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, NODES[0], NODES[0].label("x")), False, id="it did before"),
        pytest.param(node_updated(Action.UPDATE_NODE_LABEL, NODES[0], NODES[2]), False, id="it no longer matches"),
    ],
)
def test_requeue_of_pod_rejected_by_node_affinity(event: ClusterEvent, requeued: bool) -> None:
    assert requeues(plugin(), pod().node_selector(disk="ssd"), event) is requeued


def test_requeue_when_node_newly_matches_added_affinity() -> None:
    required = {"nodeSelectorTerms": [labels("disk", "Exists")]}
    enforced = plugin(requiredDuringSchedulingIgnoredDuringExecution=required)
    opened = node_updated(Action.UPDATE_NODE_LABEL, node("n"), node("n").label("disk"))
    assert requeues(enforced, pod(), opened)
    assert not requeues(enforced, pod(), node_added(node("n")))


def test_invalid_added_affinity_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^addedAffinity\.required.*\[1\]\.matchExpressions\[0\]\.values: Invalid"):
        plugin(
            requiredDuringSchedulingIgnoredDuringExecution={
                "nodeSelectorTerms": [labels("a", "Exists"), labels("a", "Exists", "b")]
            }
        )
