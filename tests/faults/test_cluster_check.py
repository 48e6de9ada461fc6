"""The check finds each wrong that it is there to find, and finds nothing else."""

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
def test_amounts(text: str, number: Fraction) -> None:
    assert amount(text) == number


def test_a_pod_takes_the_most_that_it_wants_at_once() -> None:
    found = pod(spec={"initContainers": [{"resources": {"requests": {"cpu": "3"}}}], "overhead": {"cpu": "500m"}})
    assert requests(found) == {"cpu": Fraction(7, 2), "pods": 1}


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([pod("a", "n", "2"), pod("b", "n", "2001m")], id="cpu"),
        pytest.param([pod(str(i), "n", "0") for i in range(4)], id="pods"),
    ],
)
def test_a_node_that_holds_too_much_is_oversold(pods: list[Json]) -> None:
    assert len(oversold(pods, [node()])) == 1
    assert oversold(pods[1:], [node()]) == []


def test_pods_that_have_ended_take_nothing() -> None:
    assert oversold([pod(str(i), "n", "4", status={"phase": "Succeeded"}) for i in range(4)], [node()]) == []


def test_a_pod_that_fits_and_waits_is_left_behind() -> None:
    assert len(left_behind([pod()], [node()])) == 1


@pytest.mark.parametrize(
    ("waiting", "others"),
    [
        pytest.param(pod(cpu="5"), [], id="too big"),
        pytest.param(pod(), [pod("other", "n", "3500m")], id="no room left"),
        pytest.param(pod(spec={"nodeSelector": {"pool": "b"}}), [], id="not for it"),
        pytest.param(pod(spec={"schedulingGates": [{"name": "x"}]}), [], id="gated"),
        pytest.param(pod(metadata=LEAVING), [], id="leaving"),
    ],
)
def test_a_pod_that_may_not_go_anywhere_is_not(waiting: Json, others: list[Json]) -> None:
    assert left_behind([waiting, *others], [node()]) == []


@pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [{"key": "x", "effect": "NoSchedule"}]}])
def test_a_node_that_takes_nobody_has_no_room(spec: Json) -> None:
    assert left_behind([pod()], [node(**spec)]) == []


def test_a_promise_is_stale_where_nobody_makes_room() -> None:
    promised = pod(status={"nominatedNodeName": "n"})
    assert len(stale_nominations([promised], [])) == 1
    assert len(stale_nominations([promised], [node()])) == 1
    assert stale_nominations([promised, pod("victim", "n", metadata=LEAVING)], [node()]) == []


def test_a_pod_on_a_node_that_is_gone_is_stranded() -> None:
    assert len(stranded([pod("a", "gone"), pod("b", "n"), pod("c")], [node()])) == 1


def test_a_pod_that_moves_was_bound_twice() -> None:
    witness = BindingWitness()
    for on in ("", "a", "a"):
        witness.see(pod(on=on))
    assert witness.bound_twice({"ns/p": 1, "elsewhere/p": 9}) == []
    witness.see(pod(on="b"))
    assert len(witness.bound_twice({})) == 1


def test_a_pod_that_the_server_bound_more_often_than_it_was_made_was_bound_twice() -> None:
    witness = BindingWitness()
    witness.see(pod(on="a"))
    assert len(witness.bound_twice({"ns/p": 2})) == 1
    witness.see(pod(on="b", metadata={"uid": "another of that name"}))
    assert witness.bound_twice({"ns/p": 2}) == []
