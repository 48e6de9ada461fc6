"""Pods that exist before their claims: they enter the queue once all claims do, at the cost of their own events."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from pyscheduler.api import Pod, Rejection
from pyscheduler.core.queue.unschedulable import UnschedulablePods
from pyscheduler.intree import DynamicResources
from pyscheduler.testing import Harness, node

from .devices import Json, claim, device_class, resource_slice, user

NAMES = ("c0", "c1", "c2")


def cluster(devices: int = 8) -> Harness:
    harness = Harness()
    harness.apply(device_class())
    harness.add(node("a"))
    harness.apply(resource_slice("a", *(f"g{i}" for i in range(devices))))
    return harness


def user_of_all() -> Json:
    claims = [{"name": name, "resourceClaimName": name} for name in NAMES]
    return user("p", "", resourceClaims=claims)


@pytest.mark.parametrize("order", [*permutations(NAMES)], ids="".join)
def test_pod_is_scheduled_after_the_last_of_its_claims(order: tuple[str, ...]) -> None:
    harness = cluster()
    harness.apply(user_of_all())
    harness.run()
    for name in order:
        assert not harness.bindings
        harness.apply(claim(name))
        harness.run()
    assert harness.bindings == {"default/p": "a"}


def test_pod_waits_again_for_a_claim_that_was_deleted_meanwhile() -> None:
    harness = cluster()
    harness.apply(user_of_all())
    harness.apply(claim("c0"))
    harness.run()
    harness.delete("ResourceClaim", "c0")
    for name in ("c2", "c1"):
        harness.apply(claim(name))
        harness.run()
    assert not harness.bindings
    harness.apply(claim("c0"))
    harness.run()
    assert harness.bindings == {"default/p": "a"}


def test_pod_is_scheduled_once_its_status_names_the_claim_of_a_template() -> None:
    harness = cluster()
    entry = {"name": "device", "resourceClaimTemplateName": "template"}
    made = user("p", "", resourceClaims=[entry])
    made["metadata"]["uid"] = "uid-p"
    harness.apply(made)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    harness.apply(claim("p-device", ownerReferences=[owner]))
    harness.run()
    assert not harness.bindings
    harness.apply({**made, "status": {"resourceClaimStatuses": [{"name": "device", "resourceClaimName": "p-device"}]}})
    harness.run()
    assert harness.bindings == {"default/p": "a"}


def count_evaluations(pods: int) -> None:
    """Create claims one by one for gated pods, and check how often PreEnqueue is called."""
    calls = []
    pre_enqueue = DynamicResources.pre_enqueue

    def counted(self: DynamicResources, pod: Pod) -> Rejection | None:
        calls.append(pod.name)
        return pre_enqueue(self, pod)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamicResources, "pre_enqueue", counted)
        harness = cluster(devices=pods)
        for i in range(pods):
            harness.apply(user(f"p{i}", f"c{i}"))
        harness.run()
        calls.clear()
        for i in range(pods):
            harness.apply(claim(f"c{i}"))
            harness.apply(resource_slice("b", f"g{i}"))  # of no pod's gate
            harness.run()
    assert len(harness.bindings) == pods
    assert len(calls) <= 4 * pods


def test_each_claim_costs_evaluations_of_its_own_pods_only() -> None:
    count_evaluations(60)


@pytest.mark.parametrize(
    ("owner", "name", "story"),
    [
        (UnschedulablePods, "update_gate", lambda: test_pod_is_scheduled_after_the_last_of_its_claims(NAMES)),
        (DynamicResources, "gate_object", lambda: count_evaluations(60)),
    ],
    ids=["gate is not followed", "all events are evaluated"],
)
def test_stories_catch_planted_bugs(
    owner: type, name: str, story: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, lambda *_: None)
    with pytest.raises(AssertionError):
        story()
