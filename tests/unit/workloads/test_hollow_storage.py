"""What only an embedded cluster does: volumes of every class, and Events about kinds without a controller."""

from __future__ import annotations

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.embedded.client.kinds import CLAIMS, SERVICES, STORAGE_CLASSES, VOLUMES
from pyscheduler.embedded.cluster import EmbeddedCluster
from pyscheduler.kube.paths import CORE_EVENTS
from tests.unit.hollow.live import list_objects, until, wait_for, wait_until_deleted
from tests.unit.workloads.builders import Json

INGRESSES = ResourceKind("networking.k8s.io", "v1", "ingresses", "Ingress")
POLICIES = ResourceKind(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)


def claim() -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": "c", "namespace": "default"}, "spec": spec}


async def test_claim_of_the_default_class_is_provisioned_grows_and_is_reclaimed() -> None:
    async with EmbeddedCluster(nodes=0) as cluster:
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        storage_class = {"metadata": {"name": "standard", "annotations": annotations}, "provisioner": "x.example.com"}
        await cluster.client.create(STORAGE_CLASSES, {**storage_class, "allowVolumeExpansion": True})
        await cluster.client.create(CLAIMS, claim())
        bound = await wait_for(cluster.client, CLAIMS, "c", lambda found: found["status"]["phase"] == "Bound")
        name = bound["spec"]["volumeName"]
        await cluster.client.patch(CLAIMS, ("default", "c"), {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
        await wait_for(cluster.client, CLAIMS, "c", lambda found: found["status"]["capacity"]["storage"] == "3Gi")
        assert (await cluster.client.get(VOLUMES, "", name))["spec"]["capacity"]["storage"] == "3Gi"
        await cluster.client.delete(CLAIMS, ("default", "c"))
        await wait_until_deleted(cluster.client, VOLUMES, name)


async def test_claim_without_a_class_has_an_event() -> None:
    async with EmbeddedCluster(nodes=0) as cluster:
        await cluster.client.create(CLAIMS, claim())
        event = await _event(cluster, "FailedBinding")
        assert "no storage class is set" in event["message"]


@pytest.mark.parametrize(
    ("kind", "body", "namespace", "text"),
    [
        pytest.param(
            INGRESSES,
            {
                "metadata": {"name": "x", "namespace": "default"},
                "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}},
            },
            "default",
            "there is no ingress controller",
            id="in a namespace",
        ),
        pytest.param(
            SERVICES,
            {
                "metadata": {"name": "x", "namespace": "default"},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            },
            "default",
            "there is no load balancer",
            id="load balancer",
        ),
        pytest.param(POLICIES, {"metadata": {"name": "x"}}, "default", "webhooks are not called", id="of the cluster"),
    ],
)
async def test_kind_without_a_controller_has_an_event(
    kind: ResourceKind, body: Json, namespace: str, text: str
) -> None:
    async with EmbeddedCluster(nodes=0) as cluster:
        made = await cluster.client.create(kind, body)
        event = await _event(cluster, "NoController")
        assert text in event["message"]
        assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
        assert event["metadata"]["namespace"] == namespace


async def test_service_without_a_load_balancer_has_no_event() -> None:
    async with EmbeddedCluster(nodes=0) as cluster:
        meta = {"name": "x", "namespace": "default"}
        await cluster.client.create(SERVICES, {"metadata": meta, "spec": {"ports": [{"port": 80}]}})
        await cluster.client.create(CLAIMS, claim())
        await _event(cluster, "FailedBinding")
        assert {event["reason"] for event in await list_objects(cluster.client, CORE_EVENTS)} == {"FailedBinding"}


async def _event(cluster: EmbeddedCluster, reason: str) -> Json:
    async def poll() -> Json | None:
        events = await list_objects(cluster.client, CORE_EVENTS)
        return next((event for event in events if event["reason"] == reason), None)

    return await until(poll)
