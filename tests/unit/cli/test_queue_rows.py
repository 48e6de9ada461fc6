"""Rows of `pyscheduler queues`: the tree with shares and usage, and the group that is next in each queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyscheduler.cli.batch_cluster import BatchCluster, ListedObjects
from pyscheduler.cli.group_rows import group_rows
from pyscheduler.cli.queue_rows import GroupCounts, QueueRow, ResourceRow, queue_rows
from pyscheduler.config.load import load
from tests.scenarios.batch.cluster import with_queue_args
from tests.scenarios.batch.manifests import ANNOTATIONS, VOLCANO, Gang, Manifest, gang, node, pod, queue
from tests.unit.cli.batch_server import bound, rejected, stored
from tests.unit.cli.test_group_rows import context_of, some_bound, with_pods


def rows_of(*objects: Manifest | Gang) -> dict[str, QueueRow]:
    """Return the rows by name, in their order."""
    context = context_of(stored(*objects))
    return {row.name: row for row in queue_rows(context, group_rows(context))}


def test_tree_has_shares_usage_and_what_is_borrowed() -> None:
    busy = some_bound(gang("busy", 6, 10, api=VOLCANO, queue="vision"), 6)
    queues = (queue("research", weight=1), queue("vision", parent="research", weight=2), queue("prod", weight=1))
    rows = rows_of(node("n1", 8), *queues, busy, gang("serve", 9, api=VOLCANO, queue="prod"))
    assert [(row.name, row.parent, row.depth) for row in rows.values()] == [
        ("root", "", 0),
        ("default", "root", 1),
        ("prod", "root", 1),
        ("research", "root", 1),
        ("vision", "research", 2),
    ]
    shown = {"allocated": 6, "requested": 10, "share": 4, "borrowed": 2}
    expected = {"cpu": ResourceRow(**shown, deserved=None, guarantee=0, capability=None)}
    assert rows["vision"].resources == expected
    assert rows["research"].resources == expected
    assert rows["prod"].resources["cpu"].share == 4
    assert rows["root"].resources["cpu"].allocated == 6


def test_amounts_are_cores_and_declared_ones_are_shown_without_usage() -> None:
    spec: Any = {"capability": {"cpu": "2500m", "gpu": 2}, "deserved": {"cpu": "1500m"}, "guarantee": {"cpu": 1}}
    row = rows_of(node("n1", 8), queue("q", **spec))["q"]
    assert list(row.resources) == ["cpu", "nvidia.com/gpu"]
    cpu = row.resources["cpu"]
    assert (cpu.deserved, cpu.guarantee, cpu.capability, cpu.allocated) == (1.5, 1, 2.5, 0)
    assert row.resources["nvidia.com/gpu"].capability == 2


def test_pods_are_counts_where_a_queue_has_a_quota_of_them() -> None:
    running = some_bound(gang("a", 2, api=VOLCANO, queue="q"), 2)
    rows = rows_of(node("n1", 8), queue("q", capability={"pods": 3}), running)
    pods = rows["q"].resources["pods"]
    assert (pods.allocated, pods.share, pods.deserved, pods.capability) == (2, 0, None, 3)


def test_next_is_the_first_in_line_with_its_reason() -> None:
    low = gang("low", 4, api=VOLCANO, queue="q")
    high = gang("high", 4, api=VOLCANO, queue="q", priority=5)
    high = with_pods(high, *(rejected(each, "Unschedulable", "no room for high") for each in high.pods))
    row = rows_of(node("n1", 2), queue("q"), low, high)["q"]
    assert row.next is not None
    assert (row.next.key, row.next.reason, row.next.message) == ("default/high", "Unschedulable", "no room for high")


def test_gated_group_is_next_only_if_there_is_no_other() -> None:
    lacking, ready = gang("a", 4, 2, api=VOLCANO, queue="q"), gang("b", 2, api=VOLCANO, queue="q")
    both, alone = rows_of(node("n1"), queue("q"), lacking, ready), rows_of(node("n1"), queue("q"), lacking)
    assert both["q"].next is not None
    assert both["q"].next.name == "b"
    assert alone["q"].next is not None
    assert alone["q"].next.message == "pod group default/a has only 2 of the 4 pods that it needs"
    assert rows_of(node("n1"), queue("q"))["q"].next is None


def test_groups_are_counted_in_all_queues_above() -> None:
    groups = [
        some_bound(gang("running", 2, 3, api=VOLCANO, queue="sub"), 2),
        gang("waiting", 4, 5, api=VOLCANO, queue="sub"),
        gang("gated", 4, 1, api=ANNOTATIONS, queue="sub"),
        gang("other", 1, api=VOLCANO, queue="top2"),
    ]
    rows = rows_of(node("n1"), queue("top"), queue("sub", parent="top"), queue("top2"), *groups, bound(pod("solo")))
    assert rows["sub"].groups == GroupCounts(running=1, waiting=1, waiting_pods=5, gated=1)
    assert rows["top"].groups == rows["sub"].groups
    assert rows["top2"].groups == GroupCounts(waiting=1, waiting_pods=1)
    assert rows["root"].groups == GroupCounts(running=2, waiting=2, waiting_pods=6, gated=1)


def test_closed_invalid_and_missing_queues_are_shown_with_the_reason() -> None:
    queues = [queue("shut", state="Closed"), queue("below", parent="shut"), queue("bad", weight=-1)]
    rows = rows_of(node("n1"), *queues, gang("lost", 1, api=VOLCANO, queue="nowhere"))
    assert {name: (row.state, row.problem) for name, row in rows.items() if name not in ("root", "default")} == {
        "shut": ("Closed", ""),
        "below": ("Closing", 'spec.parent: Invalid value: "shut": the queue is Closed'),
        "bad": ("Invalid", "spec.weight: Invalid value: -1: must be an integer from 0 to 65535"),
        "nowhere": ("Missing", "queue nowhere does not exist"),
    }
    assert rows["nowhere"].groups.gated == 1


def test_usage_of_a_missing_queue_is_shown() -> None:
    row = rows_of(node("n1", 8), some_bound(gang("lost", 2, api=VOLCANO, queue="nowhere"), 2))["nowhere"]
    assert (row.state, row.resources["cpu"].allocated, row.resources["cpu"].share) == ("Missing", 2, 0)


def test_queue_of_a_limit_that_does_not_exist_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(with_queue_args(limits=[{"queue": "reserch", "users": ["*"], "maxJobs": 1}]), encoding="utf-8")
    rows = {row.name: row for row in queue_rows(BatchCluster(load(file)).load(ListedObjects([], [], [])), [])}
    assert (rows["reserch"].state, rows["reserch"].problem) == (
        "Missing",
        "queue reserch does not exist, and a limit names it",
    )


def test_elastic_quotas_are_queues_of_their_namespaces() -> None:
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "limit", "namespace": "default"},
        "spec": {"min": {"cpu": 2}, "max": {"cpu": 4}},
    }
    row = rows_of(node("n1", 8), quota, gang("g", 3, api=VOLCANO))["default/limit"]
    assert (row.parent, row.depth, row.groups.waiting) == ("elasticquotas.scheduling.x-k8s.io", 2, 1)
    assert row.resources["cpu"].capability == 4
