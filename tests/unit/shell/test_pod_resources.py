"""/metrics/resources, line by line as in kube-scheduler."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.shell.serving.pod_resources import limits_of, page
from pyscheduler.testing import PodBuilder, pod

Series = dict[tuple[str, str, str, str], float]


async def metrics_of(*pods: PodBuilder) -> Series:
    """Return the values by (metric, pod, resource, unit)."""
    found = page([p.build() for p in pods])
    assert not isinstance(found.body, bytes)
    text = b"".join([piece async for piece in found.body]).decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    return {(s.name, s.labels["pod"], s.labels["resource"], s.labels["unit"]): s.value for s in samples}


async def test_requests_and_limits() -> None:
    requesting = pod("a").requests(cpu="1500m", memory="1Gi", ephemeral_storage="1k").request("example.com/gpu", "2")
    assert await metrics_of(requesting.limits(cpu="2", memory="0")) == {
        ("kube_pod_resource_request", "a", "cpu", "cores"): 1.5,
        ("kube_pod_resource_request", "a", "memory", "bytes"): 2**30,
        ("kube_pod_resource_request", "a", "ephemeral-storage", "bytes"): 1000,
        ("kube_pod_resource_request", "a", "example.com/gpu", ""): 2,
        ("kube_pod_resource_limit", "a", "cpu", "cores"): 2,
    }


@pytest.mark.parametrize(
    ("resource", "unit"), [("hugepages-2Mi", "bytes"), ("attachable-volumes-csi-x", "integer"), ("storage", "bytes")]
)
async def test_units(resource: str, unit: str) -> None:
    assert await metrics_of(pod("a").request(resource, "4")) == {("kube_pod_resource_request", "a", resource, unit): 4}


async def test_labels() -> None:
    requesting = pod("a").namespace("team").requests(cpu="1").on("n1").scheduler('my "own"').priority(7)
    found = page([requesting.build(), pod("b").requests(cpu="1").build()])
    assert not isinstance(found.body, bytes)
    lines = b"".join([piece async for piece in found.body]).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'kube_pod_resource_request{namespace="team",pod="a",node="n1",scheduler="my \\"own\\"",priority="7",'
        'resource="cpu",unit="cores"} 1.0',
        'kube_pod_resource_request{namespace="default",pod="b",node="",scheduler="default-scheduler",priority="",'
        'resource="cpu",unit="cores"} 1.0',
    ]


async def test_finished_pods_are_omitted() -> None:
    assert await metrics_of(pod("a").requests(cpu="1").on("n1").phase("Succeeded")) == {}


async def test_many_pods_are_written_in_slices() -> None:
    pods = [pod(f"p{n}").requests(cpu="1").build() for n in range(600)]
    found = page(pods)
    assert not isinstance(found.body, bytes)
    pieces = [piece async for piece in found.body]
    assert len(pieces) == 14
    assert sum(piece.count(b"\nkube_pod") + piece.startswith(b"kube_pod") for piece in pieces) == 600


def test_overhead_is_added_only_to_existing_limits() -> None:
    limited = {"limits": {"cpu": "1", "memory": "100"}}
    requesting = (
        pod("a")
        .limits(cpu="1")
        .container(resources=limited)
        .init_container(resources={"limits": {"cpu": "5"}})
        ._with("spec.overhead", {"cpu": "250m", "example.com/gpu": "1"})
    )
    assert limits_of(requesting.build().spec) == {"cpu": 5250, "memory": 100}
