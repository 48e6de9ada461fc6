"""Claims that wait for a volume are tried again where that may help, and cost nothing otherwise."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.client import Informer
from pyscheduler.embedded.client.kinds import CLAIMS, STORAGE_CLASSES, VOLUMES
from pyscheduler.embedded.objects import Key
from pyscheduler.embedded.workloads.volume_controller import VolumeController, VolumeItem
from pyscheduler.kube.reflector import Deleted, Upsert, Watched
from tests.unit.kube.virtual import VirtualClock
from tests.unit.workloads.builders import Json
from tests.unit.workloads.recording import RecordingClient


class VolumesFixture:
    """The controller of claims and volumes; its caches change only by what a test puts."""

    def __init__(self) -> None:
        self.client = RecordingClient()
        self.claims = Informer(Watched(CLAIMS), Json)
        self.controller = VolumeController(self.client, VirtualClock(wall=0.0), self.claims, provision=True)
        self.volumes, self.classes = self.controller.informers

    def put_claim(self, name: str, storage_class: str, phase: str = "Pending") -> Key:
        meta = {"name": name, "namespace": "n", "uid": name}
        spec = {"storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
        self.claims.handle(Upsert({"metadata": meta, "spec": spec, "status": {"phase": phase}}))
        return "n", name

    def put_volume(self, name: str, storage_class: str, **spec: Any) -> None:
        whole = {"capacity": {"storage": "1Gi"}, "storageClassName": storage_class, **spec}
        self.volumes.handle(Upsert({"metadata": {"name": name, "uid": name}, "spec": whole, "status": {}}))

    async def queued_claims(self) -> set[str]:
        """Return the queued claims, and empty the queue."""
        queue = self.controller.queue
        items = [await queue._take() for _ in range(len(queue))]
        queue._processing.clear()
        return {item.key[1] for item in items if item.kind == CLAIMS.kind}


async def test_free_volume_wakes_the_pending_claims_of_its_class() -> None:
    fixture = VolumesFixture()
    fixture.put_claim("a", "gold")
    fixture.put_claim("b", "silver")
    fixture.put_claim("c", "gold", "Bound")
    fixture.put_claim("d", "gold")
    fixture.claims.handle(Deleted("n", "d", "d"))
    await fixture.queued_claims()
    fixture.put_volume("v", "gold")
    assert await fixture.queued_claims() == {"a"}
    fixture.put_volume("w", "bronze")
    assert await fixture.queued_claims() == set()


async def test_class_wakes_its_pending_claims() -> None:
    fixture = VolumesFixture()
    fixture.put_claim("a", "gold")
    fixture.put_claim("b", "silver")
    await fixture.queued_claims()
    fixture.classes.handle(Upsert({"metadata": {"name": "gold"}, "provisioner": "x.example.com"}))
    assert fixture.classes.kind == STORAGE_CLASSES
    assert await fixture.queued_claims() == {"a"}


async def test_released_volume_is_bound_again() -> None:
    fixture = VolumesFixture()
    key = fixture.put_claim("a", "gold")
    fixture.put_volume("v", "gold", claimRef={"namespace": "n", "name": "other", "uid": "x"})
    await fixture.queued_claims()
    await fixture.controller.reconcile(VolumeItem(CLAIMS.kind, key))
    assert fixture.client.bodies_of("patch", VOLUMES.plural) == []
    fixture.put_volume("v", "gold")
    assert await fixture.queued_claims() == {"a"}
    await fixture.controller.reconcile(VolumeItem(CLAIMS.kind, key))
    assert fixture.client.bodies_of("patch", VOLUMES.plural)[0]["spec"]["claimRef"]["uid"] == "a"


async def test_event_of_a_waiting_claim_is_written_once_until_the_reason_changes() -> None:
    fixture = VolumesFixture()
    item = VolumeItem(CLAIMS.kind, fixture.put_claim("a", "gold"))
    await fixture.controller.reconcile(item)
    await fixture.controller.reconcile(item)
    assert fixture.client.lines == ["create events"]
    waits = {"provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    fixture.classes.handle(Upsert({"metadata": {"name": "gold"}, **waits}))
    await fixture.controller.reconcile(item)
    await fixture.controller.reconcile(item)
    assert fixture.client.lines == ["create events"] * 2
    assert [body["reason"] for body in fixture.client.bodies] == ["ProvisioningFailed", "WaitForFirstConsumer"]
