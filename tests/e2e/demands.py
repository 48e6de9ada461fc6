"""Everything that a cluster may demand of its scheduler, so that it uses every right that it has."""

from __future__ import annotations

from typing import NamedTuple

from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.volumes import CLASSES, VOLUMES, WANTED, make_volume, selected_node, volume
from tests.e2e.workloads import hollow_nodes, pod, pod_spec

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


class Demands(NamedTuple):
    """Makes demands on the scheduler `name`, in a namespace; its name is also the prefix of nodes and other objects."""

    plane: Plane
    namespace: str
    name: str

    async def all(self) -> None:
        """One node of one core: each demand is met, or reported as unschedulable, before the next."""
        async with hollow_nodes(self.plane, self.namespace, 1, cpu="1"):
            await self.a_plain_pod()
            await self.a_volume_that_is_there()
            await self.a_volume_that_is_to_be_made()
            await self.a_pod_too_many_and_one_that_matters_more()

    async def a_plain_pod(self) -> None:
        await self._pod("plain", "100m")
        await self._bound("plain")

    async def a_volume_that_is_there(self) -> None:
        """A claim that the scheduler binds to a volume."""
        made = f"{self.namespace}-there"
        await self._class(made, "kubernetes.io/no-provisioner")
        await self.plane.api.create(VOLUMES, volume(made, made))
        await self._claim("there", made)
        await self._pod("reader", "100m", volumes=[_uses("there")])
        await self._bound("reader")

    async def a_volume_that_is_to_be_made(self) -> None:
        """A claim on which the scheduler sets the selected node."""
        made = f"{self.namespace}-made"
        await self._class(made, "test.example.com/maker")
        await self._claim("made", made)
        await self._pod("writer", "100m", volumes=[_uses("made")])
        claim = await self.plane.api.until(f"{self._core}/persistentvolumeclaims/made", selected_node)
        await make_volume(self.plane.api, made, claim)
        await self._bound("writer")

    async def a_pod_too_many_and_one_that_matters_more(self) -> None:
        """A pod that never fits is retried when the victim is deleted, and reported a second time."""
        urgent = f"{self.namespace}-urgent"
        await self.plane.api.create(PRIORITIES, {"metadata": {"name": urgent}, "value": 1000})
        await self._pod("victim", "600m")
        await self._bound("victim")
        await self._pod("giant", "100")
        await self.plane.api.until(self._events, lambda found: _failed_scheduling(found, "giant"))
        await self._pod("urgent", "600m", priorityClassName=urgent)
        await self._bound("urgent")
        await self.plane.api.until(
            self._events, lambda found: any("series" in e for e in _failed_scheduling(found, "giant"))
        )

    async def a_gang(self) -> None:
        """Two members of a PodGroup, counted in its status."""
        groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{self.namespace}/podgroups"
        group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "pair"}}
        await self.plane.api.create(groups, {**group, "spec": {"minMember": 2}})
        async with hollow_nodes(self.plane, self.namespace, 1, cpu="4"):
            for member in ("left", "right"):
                await self._pod(member, "100m", labels={GROUP_LABEL: "pair"})
            for member in ("left", "right"):
                await self._bound(member)
            await self.plane.api.until(f"{groups}/pair", lambda found: found.get("status", {}).get("scheduled") == 2)

    @property
    def _core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def _events(self) -> str:
        return f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"

    async def _pod(self, name: str, cpu: str, labels: dict[str, str] | None = None, **fields: object) -> None:
        spec = pod_spec(self.name, self.namespace, cpu, **fields)
        await self.plane.api.create(f"{self._core}/pods", pod(name, spec, labels))

    async def _bound(self, name: str) -> None:
        await self.plane.api.until(f"{self._core}/pods/{name}", lambda found: found["spec"].get("nodeName"))

    async def _class(self, name: str, provisioner: str) -> None:
        late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await self.plane.api.create(CLASSES, {"metadata": {"name": name}, **late})

    async def _claim(self, name: str, storage_class: str) -> None:
        claim = {"metadata": {"name": name}, "spec": {**WANTED, "storageClassName": storage_class}}
        await self.plane.api.create(f"{self._core}/persistentvolumeclaims", claim)


def _uses(claim: str) -> Json:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _failed_scheduling(events: Json, name: str) -> list[Json]:
    return [e for e in events["items"] if e["reason"] == "FailedScheduling" and e["regarding"]["name"] == name]
