"""Rows of `pyscheduler groups`: state, position and reason of every pod group."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import msgspec
import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.api.objects import NodeObject, PodObject
from pyscheduler.cli.batch_cluster import BatchCluster, ListedObjects, batch_config
from pyscheduler.cli.group_rows import GroupRow, group_rows
from pyscheduler.core.context import Context
from tests.scenarios.batch.cluster import Cluster
from tests.scenarios.batch.manifests import (
    ANNOTATIONS,
    APIS,
    VOLCANO,
    Gang,
    Manifest,
    annotated,
    gang,
    node,
    pod,
    queue,
)
from tests.unit.cli.batch_server import SCHEDULER, bound, rejected, stored


def context_of(objects: Sequence[Manifest]) -> Context:
    """Return the context with these objects, as stored."""
    cluster = BatchCluster(batch_config(SCHEDULER))
    kinds: dict[tuple[str, str], ResourceKind] = {
        (f"{kind.group}/{kind.version}", kind.kind): kind for kind in cluster.kinds
    }
    pods = [msgspec.convert(each, PodObject) for each in objects if each["kind"] == "Pod"]
    nodes = [msgspec.convert(each, NodeObject) for each in objects if each["kind"] == "Node"]
    others = [
        (kinds[each["apiVersion"], each["kind"]], each) for each in objects if each["kind"] not in ("Pod", "Node")
    ]
    return cluster.load(ListedObjects(pods, nodes, others))


def rows_of(*objects: Manifest | Gang) -> dict[str, GroupRow]:
    """Return the rows by name."""
    return {row.name: row for row in group_rows(context_of(stored(*objects)))}


def with_pods(group: Gang, *pods: Manifest) -> Gang:
    """Return the group with other versions of its pods."""
    return Gang(group.name, group.minimum, list(pods), group.objects)


def some_bound(group: Gang, count: int, phase: str = "Running") -> Gang:
    """Return the group with nodes for its first pods."""
    return with_pods(group, *(bound(each, phase=phase) for each in group.pods[:count]), *group.pods[count:])


WAITING = gang("g", 3, api=VOLCANO)
ROOM = node("n1", 8)


@pytest.mark.parametrize("api", APIS)
def test_group_of_every_api_is_shown_with_its_minimum(api: str) -> None:
    row = rows_of(ROOM, gang("g", 3, 4, api=api))["g"]
    assert (row.key, row.state, row.needed, row.pending, row.placed) == ("default/g", "Waiting", 3, 4, 0)
    assert row.api == ("" if api == ANNOTATIONS else api.split("/")[0])


@pytest.mark.parametrize(
    ("group", "state", "counts"),
    [
        (WAITING, "Waiting", (3, 0, 0)),
        (some_bound(WAITING, 3), "Scheduled", (0, 3, 0)),
        (some_bound(gang("g", 3, 5, api=VOLCANO), 3), "Scheduled", (2, 3, 0)),
        (some_bound(WAITING, 2), "Incomplete", (1, 2, 0)),
        (some_bound(WAITING, 3, "Succeeded"), "Completed", (0, 0, 3)),
        (some_bound(WAITING, 2, "Succeeded"), "Waiting", (1, 0, 2)),
        (gang("g", 3, 2, api=VOLCANO), "Gated", (2, 0, 0)),
        (some_bound(gang("g", 3, 2, api=VOLCANO), 2), "Incomplete", (0, 2, 0)),
        (Gang("g", 3, WAITING.pods, []), "Gated", (3, 0, 0)),
        (Gang("g", 3, some_bound(WAITING, 3, "Succeeded").pods, []), "Completed", (0, 0, 3)),
    ],
)
def test_state_follows_from_the_nodes_of_the_members(group: Gang, state: str, counts: tuple[int, int, int]) -> None:
    row = rows_of(ROOM, group)["g"]
    assert (row.state, (row.pending, row.placed, row.succeeded)) == (state, counts)


def test_reason_of_a_gated_group_is_computed() -> None:
    closed: list[Manifest | Gang] = [queue("q", state="Closed"), gang("held", 2, api=VOLCANO, queue="q")]
    lacking = gang("lacking", 3, 2, api=VOLCANO)
    alone = Gang("alone", 2, gang("alone", 2, api=VOLCANO).pods, [])
    rows = rows_of(ROOM, *closed, lacking, alone)
    assert {name: row.message for name, row in rows.items()} == {
        "held": "queue q is Closed",
        "lacking": "pod group default/lacking has only 2 of the 3 pods that it needs",
        "alone": "waiting for PodGroup default/alone (scheduling.volcano.sh) to appear",
    }
    assert {row.reason for row in rows.values()} == {"SchedulingGated"}


def test_computed_reason_replaces_an_older_condition() -> None:
    old = [rejected(each, "Unschedulable", "0/1 nodes are available") for each in WAITING.pods[:2]]
    row = rows_of(ROOM, with_pods(WAITING, *old))["g"]
    assert (row.state, row.message) == ("Gated", "pod group default/g has only 2 of the 3 pods that it needs")


def test_reason_of_a_waiting_group_is_that_of_its_pods() -> None:
    message = "pod group default/g does not fit: 1 of 3 required pods have a node"
    row = rows_of(ROOM, with_pods(WAITING, *(rejected(each, "Unschedulable", message) for each in WAITING.pods)))["g"]
    assert (row.reason, row.message) == ("Unschedulable", message)
    assert {member.message for member in row.members} == {message}


def test_group_without_a_condition_was_not_attempted_or_exceeds_its_quota() -> None:
    quota: list[Manifest | Gang] = [queue("q", capability={"cpu": 2}), gang("large", 3, api=VOLCANO, queue="q")]
    rows = rows_of(ROOM, WAITING, *quota)
    assert (rows["g"].reason, rows["g"].message) == ("", "not attempted yet")
    assert rows["large"].reason == "QuotaExceeded"
    assert "queue q would exceed its capability of 2 cpu by 1 cpu" in rows["large"].message


def test_group_of_a_controller_has_no_api() -> None:
    """The API in its key is the UID of the controller."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "0c054d7e", "controller": True}
    member = annotated(pod("train-0"), pod_group_min_count="2")
    member["metadata"]["ownerReferences"] = [owner]
    row = rows_of(node("n1"), member)["Job/train"]
    assert (row.api, row.state) == ("", "Gated")


def test_gates_of_a_pod_without_a_group_are_named() -> None:
    gated = pod("alone")
    gated["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    row = rows_of(node("n1"), gated)["alone"]
    assert (row.state, row.message) == ("Gated", "the pod has scheduling gates: kueue.x-k8s.io/admission")


def test_pods_with_scheduling_gates_are_counted_apart() -> None:
    gated = {**WAITING.pods[2], "spec": {**WAITING.pods[2]["spec"], "schedulingGates": [{"name": "example.com/hold"}]}}
    row = rows_of(ROOM, with_pods(WAITING, *WAITING.pods[:2], gated))["g"]
    assert (row.state, row.pending, row.gated) == ("Gated", 2, 1)
    assert row.message.endswith("2 of the 3 pods that it needs; 1 more have scheduling gates: example.com/hold")


def test_pod_group_that_no_pod_names_is_shown() -> None:
    row = rows_of(ROOM, gang("empty", 2, 0, api=VOLCANO))["empty"]
    assert (row.state, row.message, row.created) == ("Gated", "no pod names it", "2026-01-01T00:00:01Z")


def test_groups_of_other_schedulers_are_left_out() -> None:
    foreign = [{**each, "spec": {**each["spec"], "schedulerName": "volcano"}} for each in WAITING.pods]
    assert rows_of(ROOM, with_pods(WAITING, *foreign), gang("ours", 1, api=VOLCANO)).keys() == {"ours"}


def test_line_of_a_queue_is_by_priority_then_by_age() -> None:
    groups = [
        gang("old", 2, api=VOLCANO, queue="q"),
        gang("new", 2, api=VOLCANO, queue="q"),
        gang("urgent", 2, api=VOLCANO, queue="q", priority=9),
        some_bound(gang("broken", 2, api=VOLCANO, queue="q"), 1),
        gang("elsewhere", 2, api=VOLCANO),
        gang("lacking", 2, 1, api=VOLCANO, queue="q"),
    ]
    rows = rows_of(ROOM, queue("q"), *groups)
    assert {name: (row.position, row.in_line, row.ahead) for name, row in rows.items()} == {
        "urgent": (1, 4, ""),
        "broken": (2, 4, "default/urgent"),
        "old": (3, 4, "default/broken"),
        "new": (4, 4, "default/old"),
        "elsewhere": (1, 1, ""),
        "lacking": (None, 0, ""),
    }
    assert rows["urgent"].priority == 9


def test_pod_without_a_group_is_a_group_in_line() -> None:
    row = rows_of(ROOM, pod("solo"))["solo"]
    assert (row.api, row.queue, row.needed, row.position) == ("Pod", "default", 1, 1)


def test_members_have_their_nodes_and_roles() -> None:
    group = some_bound(WAITING, 2)
    group.pods[0]["metadata"] = copy.deepcopy(group.pods[0]["metadata"])
    group.pods[0]["metadata"]["annotations"]["volcano.sh/task-spec"] = "ps"
    members = rows_of(ROOM, group)["g"].members
    assert [(each.name, each.role, each.phase, each.node) for each in members] == [
        ("g0", "ps", "Running", "n1"),
        ("g1", "", "Running", "n1"),
        ("g2", "", "Pending", ""),
    ]


def test_states_and_first_in_line_are_those_of_the_scheduler() -> None:
    groups = [gang(name, 4, api=VOLCANO, queue="q") for name in ("a", "b", "c")]
    objects: list[Manifest | Gang] = [node("n1", 9), queue("q"), *groups, gang("small", 1, api=VOLCANO, queue="q")]
    cluster = Cluster(*objects)
    cluster.run()
    assert [cluster.members(each) for each in groups] == [4, 4, 0]
    after = [_after(cluster, group) for group in groups]
    rows = rows_of(node("n1", 9), queue("q"), *after)
    assert {name: row.state for name, row in rows.items()} == {"a": "Scheduled", "b": "Scheduled", "c": "Waiting"}
    assert rows["c"].message == cluster.message("c0")


def _after(cluster: Cluster, group: Gang) -> Gang:
    """Return the group as the scheduler left it."""
    pods = [
        bound(each, cluster.assignments[name])
        if (name := each["metadata"]["name"]) in cluster.assignments
        else rejected(each, "Unschedulable", cluster.message(name))
        for each in group.pods
    ]
    return with_pods(group, *pods)
