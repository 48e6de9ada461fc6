"""Many rejected pods, each with claims of its own: an event of a claim is evaluated for the pods that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyscheduler.api import ClusterEvent, Pod, QueueingHint
from pyscheduler.core.queue.event_evaluator import EventEvaluator
from pyscheduler.intree.resource_claims.hints import ClaimHints
from pyscheduler.intree.volumes.hints import VolumeHints
from pyscheduler.testing import Harness, node

from .devices import Json, claim, device_class, resource_slice, user

PODS = 40


@contextmanager
def counted(owner: type, name: str) -> Iterator[list[str]]:
    """Record the pods for which the hint is called."""
    calls: list[str] = []
    hint = getattr(owner, name)

    def counting(self: Any, pod: Pod, event: ClusterEvent) -> QueueingHint:
        calls.append(pod.name)
        result: QueueingHint = hint(self, pod, event)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counting)
        yield calls


def events_of_device_claims() -> None:
    """Change the claims of pods that wait for devices, then free one device."""
    with counted(ClaimHints, "claim_changed") as calls:
        harness = Harness()
        harness.apply(device_class())
        harness.add(node("a"))
        harness.apply(resource_slice("a", "g0"))
        for i in range(PODS):
            harness.apply(claim(f"c{i}"))
            harness.apply(user(f"p{i}", f"c{i}"))
        harness.run()
        (bound,) = harness.assignments
        calls.clear()
        for i in range(PODS):
            harness.apply(claim(f"c{i}", labels={"changed": "true"}) | stored_status(harness, f"c{i}"))
            harness.apply(claim(f"other-{i}"))
            harness.run()
        assert len(calls) <= 2 * PODS
        harness.delete_pod(bound)
        harness.delete("ResourceClaim", bound.replace("p", "c"))
        harness.advance(30)
        assert len(harness.assignments) == 1, "a deleted claim has freed its device for all pods"
        assert bound not in harness.assignments


def stored_status(harness: Harness, name: str) -> Json:
    found = harness.object(harness.kinds["resourceclaims"], name, "default") or {}
    return {"status": found["status"]} if "status" in found else {}


def events_of_volume_claims() -> None:
    """Bind the claims of pods that wait for volumes, one by one."""
    with counted(VolumeHints, "claim_changed") as calls:
        harness = Harness()
        harness.add(node("a"))
        for i in range(PODS):
            harness.apply(volume_claim(i, ""))
            harness.apply(volume(i))
            harness.apply(user_of_volume(i))
        harness.run()
        assert not harness.bindings
        calls.clear()
        for i in range(PODS):
            harness.apply(volume_claim(i, f"v{i}"))
        harness.advance(30)
        assert len(harness.bindings) == PODS
        assert len(calls) <= 2 * PODS


def volume_claim(number: int, volume_name: str) -> Json:
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume_name else {}
    amounts = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "now", "resources": amounts}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"c{number}", "namespace": "default", "annotations": bound},
        "spec": {**spec, "volumeName": volume_name},
        "status": {"phase": "Bound" if volume_name else "Pending"},
    }


def volume(number: int) -> Json:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "now"}
    claimed = {"claimRef": {"namespace": "default", "name": f"c{number}"}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"v{number}"},
        "spec": {**spec, **claimed},
    }


def user_of_volume(number: int) -> Json:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"c{number}"}}]
    spec = {"containers": [{"name": "main"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}


STORIES = [events_of_device_claims, events_of_volume_claims]


@pytest.mark.parametrize("story", STORIES)
def test_events_of_claims_are_evaluated_for_their_own_pods(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize("story", STORIES)
def test_story_catches_events_that_are_evaluated_for_all_pods(
    story: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EventEvaluator, "is_narrowed", lambda *_: False)
    with pytest.raises(AssertionError):
        story()
