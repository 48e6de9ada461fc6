"""EndpointSlices list the pods of a Service by their ports."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.workloads.actions import Create, Delete, Patch
from pyscheduler.embedded.workloads.endpoints import MAX_ENDPOINTS, reconcile
from tests.unit.workloads.builders import Json, a_pod, terminating


def service(*ports: Json, **spec: Any) -> Json:
    meta = {"name": "web", "namespace": "default", "uid": "s"}
    return {"metadata": meta, "spec": {"ports": list(ports) or [{"port": 80, "targetPort": 8080}], **spec}}


def pod(name: str, ip: str = "10.0.0.1", *, ports: list[Json] | None = None, **more: Any) -> Json:
    made = a_pod(name, **more)
    made["status"]["podIP"] = ip
    made["spec"]["containers"] = [{"name": "c", "ports": ports or []}]
    return made


def slices(owner: Json, *pods: Json) -> list[Json]:
    return [action.obj for action in reconcile(owner, pods, []) if isinstance(action, Create)]


def test_slice_lists_addresses_ports_and_conditions() -> None:
    (made,) = slices(service(), pod("a"), pod("b", "10.0.0.2", ready=False), pod("c", "", phase="Pending"))
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert made["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    assert [(e["addresses"], e["conditions"]["ready"]) for e in made["endpoints"]] == [
        (["10.0.0.1"], True),
        (["10.0.0.2"], False),
    ]
    assert made["endpoints"][0]["targetRef"]["name"] == "a"
    assert made["endpoints"][0]["nodeName"] == "n"


def test_terminating_and_unready_pods() -> None:
    (made,) = slices(service(), terminating(pod("a")), pod("b", phase="Succeeded"))
    assert [e["conditions"] for e in made["endpoints"]] == [{"ready": False, "serving": True, "terminating": True}]
    (published,) = slices(service(publishNotReadyAddresses=True), pod("a", ready=False))
    assert published["endpoints"][0]["conditions"]["ready"]


def test_named_ports_are_those_of_each_pod() -> None:
    owner = service({"name": "http", "port": 80, "targetPort": "web"})
    first = pod("a", ports=[{"name": "web", "containerPort": 8080}])
    second = pod("b", "10.0.0.2", ports=[{"name": "web", "containerPort": 9090}])
    without = pod("c", "10.0.0.3")
    found = {
        tuple(port["port"] for port in made["ports"]): len(made["endpoints"])
        for made in slices(owner, first, second, without)
    }
    assert found == {(8080,): 1, (9090,): 1, (): 1}


def test_many_endpoints_are_split() -> None:
    made = slices(service(), *(pod(f"p{number:03}") for number in range(MAX_ENDPOINTS + 1)))
    assert [len(each["endpoints"]) for each in made] == [MAX_ENDPOINTS, 1]
    assert len({each["metadata"]["name"] for each in made}) == 2


def test_changes_are_patched_and_surplus_slices_deleted() -> None:
    (made,) = slices(service(), pod("a"))
    made["metadata"]["uid"] = "x"
    assert reconcile(service(), [pod("a")], [made]) == []
    (patch,) = reconcile(service(), [pod("a", ready=False)], [made])
    assert isinstance(patch, Patch)
    assert patch.patch.keys() == {"endpoints"}
    other = {**made, "metadata": {**made["metadata"], "name": "web-other"}}
    (delete,) = reconcile(service(), [pod("a")], [made, other])
    assert isinstance(delete, Delete)
    assert delete.key == ("default", "web-other")


def test_service_without_pods_has_an_empty_slice() -> None:
    (made,) = slices(service())
    assert (made["endpoints"], made["ports"]) == ([], [])
