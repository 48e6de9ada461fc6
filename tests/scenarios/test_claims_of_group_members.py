"""Members of a pod group with claims of their own, created from a template: events of each claim wake the group."""

from __future__ import annotations

import pytest

from pyscheduler.api.queued import QueuedPod
from pyscheduler.config.gates import parse
from pyscheduler.config.load import default
from pyscheduler.core.queue.hints import Hints, ObjectKey
from pyscheduler.testing import Harness, node

from .devices import DRIVER, Json, claim, device_class, message, resource_slice, stored, user


def gang_of_two() -> Harness:
    """Return a cluster with one device, and two members of a gang that both need one."""
    harness = Harness(default(parse(["GenericWorkload=true"])))
    harness.apply(device_class())
    harness.add(node("n"))
    harness.apply(resource_slice("n", "g0"))
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"}}
    harness.apply({**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    for name in ("a", "b"):
        harness.apply(generated(f"{name}-device", name))
        harness.apply(member(name))
    harness.advance(60)
    assert not harness.bindings
    assert "minCount (2) cannot be satisfied: 1 scheduled" in message(harness, "b")
    return harness


def member(name: str) -> Json:
    claims = [{"name": "device", "resourceClaimTemplateName": "device"}]
    pod = user(name, "", resourceClaims=claims, schedulingGroup={"podGroupName": "gang"})
    pod["metadata"]["uid"] = name
    return {**pod, "status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": f"{name}-device"}]}}


def generated(name: str, owner: str) -> Json:
    """Return a claim that was created from the template for a pod."""
    return claim(
        name, ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}]
    )


def allocate(harness: Harness, name: str) -> None:
    """Give a claim a device of a driver without slices, as another scheduler may."""
    result = {"request": "r", "driver": f"other.{DRIVER}", "pool": "n", "device": "d0"}
    harness.apply({**stored(harness, name), "status": {"allocation": {"devices": {"results": [result]}}}})


@pytest.mark.parametrize("name", ["a", "b"])
def test_group_is_retried_when_the_claim_of_any_member_is_allocated(name: str) -> None:
    harness = gang_of_two()
    allocate(harness, f"{name}-device")
    harness.advance(15)
    assert harness.bindings == {"default/a": "n", "default/b": "n"}


def test_group_is_not_retried_by_claims_of_others() -> None:
    harness = gang_of_two()
    harness.apply(claim("other"))
    before = harness.machine.context.attempts
    allocate(harness, "other")
    harness.advance(15)
    assert harness.machine.context.attempts == before


@pytest.mark.parametrize("name", ["a", "b"])
def test_claims_of_a_replaced_member_wake_the_group(name: str) -> None:
    harness = gang_of_two()
    harness.apply(claim("other"))  # an event before, for which the claims of the members are determined
    harness.apply(generated(f"{name}-device-2", name))
    later = member(name)
    later["status"]["resourceClaimStatuses"][0]["resourceClaimName"] = f"{name}-device-2"
    harness.apply(later)
    harness.advance(60)
    assert not harness.bindings
    allocate(harness, f"{name}-device-2")
    harness.advance(15)
    assert harness.bindings == {"default/a": "n", "default/b": "n"}


def test_objects_of_members_are_determined_once_for_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, calls = gang_of_two(), list[str]()
    original = Hints.all_objects_of

    def counted(hints: Hints, queued: QueuedPod) -> set[ObjectKey]:
        calls.append(queued.pod.name)
        return original(hints, queued)

    monkeypatch.setattr(Hints, "all_objects_of", counted)
    for number in range(5):
        harness.apply(claim(f"other-{number}"))
    assert len(calls) == 2
