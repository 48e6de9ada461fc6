"""The cluster check reports each kind of problem, and nothing else."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.e2e.client import Json
from tests.faults.cluster_check import (
    BindingWitness,
    amount,
    left_behind,
    oversold,
    requests,
    stale_nominations,
    stranded,
)


def node(name: str = "n", cpu: str = "4", **spec: object) -> Json:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "3"}
    return {"metadata": {"name": name, "labels": {"pool": "a"}}, "spec": spec, "status": {"allocatable": allocatable}}


def pod(name: str = "p", on: str = "", cpu: str = "1", **more: Json) -> Json:
    container = {"resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": on} if on else {}), **more.get("spec", {})}
    meta = {"namespace": "ns", "name": name, "uid": f"uid-{name}", **more.get("metadata", {})}
    return {"metadata": meta, "spec": spec, "status": more.get("status", {})}


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("text", "number"),
    [("100m", Fraction(1, 10)), ("4", 4), ("1Ki", 1024), ("1k", 1000), ("32Gi", 32 * 2**30), ("1e3", 1000), (7, 7)],
)
def test_quantity_is_parsed(text: str, number: Fraction) -> None:
    assert amount(text) == number


def test_requests_include_init_containers_and_overhead() -> None:
    with_init_container = pod(
        spec={"initContainers": [{"resources": {"requests": {"cpu": "3"}}}], "overhead": {"cpu": "500m"}}
    )
    assert requests(with_init_container) == {"cpu": Fraction(7, 2), "pods": 1}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([pod("a", "n", "2"), pod("b", "n", "2001m")], id="cpu"),
        pytest.param([pod(str(i), "n", "0") for i in range(4)], id="pods"),
    ],
)
def test_overcommitted_node_is_reported(pods: list[Json]) -> None:
    assert len(oversold(pods, [node()])) == 1
    assert oversold(pods[1:], [node()]) == []


def test_ended_pods_use_no_resources() -> None:
    assert oversold([pod(str(i), "n", "4", status={"phase": "Succeeded"}) for i in range(4)], [node()]) == []


def test_pending_pod_that_fits_is_reported() -> None:
    assert len(left_behind([pod()], [node()])) == 1


@pytest.mark.parametrize(
    ("waiting", "others"),
    [
        pytest.param(pod(cpu="5"), [], id="too large"),
        pytest.param(pod(), [pod("other", "n", "3500m")], id="no room left"),
        pytest.param(pod(spec={"nodeSelector": {"pool": "b"}}), [], id="node selector"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "x"}]}), [], id="gated"),
        pytest.param(pod(metadata=LEAVING), [], id="being deleted"),
    ],
)
def test_pending_pod_that_fits_nowhere_is_not_reported(waiting: Json, others: list[Json]) -> None:
    assert left_behind([waiting, *others], [node()]) == []


@pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}])
def test_unschedulable_node_has_no_room(spec: Json) -> None:
    assert left_behind([pod()], [node(**spec)]) == []


def test_nomination_without_evictions_is_reported() -> None:
    nominated = pod(status={"nominatedNodeName": "n"})
    assert len(stale_nominations([nominated], [])) == 1
    assert len(stale_nominations([nominated], [node()])) == 1
    assert stale_nominations([nominated, pod("victim", "n", metadata=LEAVING)], [node()]) == []


def test_pod_on_a_deleted_node_is_reported() -> None:
    assert len(stranded([pod("a", "gone"), pod("b", "n"), pod("c")], [node()])) == 1


def test_pod_with_two_nodes_is_reported() -> None:
    witness = BindingWitness()
    for on in ("", "a", "a"):
        witness.observe(pod(on=on))
    assert witness.bound_twice({"ns/p": 1, "elsewhere/p": 9}) == []
    witness.observe(pod(on="b"))
    assert len(witness.bound_twice({})) == 1


def test_pod_bound_more_often_than_created_is_reported() -> None:
    witness = BindingWitness()
    witness.observe(pod(on="a"))
    assert len(witness.bound_twice({"ns/p": 2})) == 1
    witness.observe(pod(on="b", metadata={"uid": "another of that name"}))
    assert witness.bound_twice({"ns/p": 2}) == []
