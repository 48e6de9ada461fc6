"""EndpointSlices list the pods of a Service by their ports."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.objects import key_of
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


def stored(owner: Json, *pods: Json) -> list[Json]:
    """Return the slices of the pods as the API server stores them."""
    made = slices(owner, *pods)
    for number, each in enumerate(made):
        each["metadata"] |= {"uid": f"s{number}", "name": f"web-{number}"}
    return made


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
    (made,) = stored(service(), pod("a"))
    assert reconcile(service(), [pod("a")], [made]) == []
    (patch,) = reconcile(service(), [pod("a", ready=False)], [made])
    assert isinstance(patch, Patch)
    assert patch.patch.keys() == {"endpoints"}
    other = {**made, "metadata": {**made["metadata"], "name": "web-zz"}}
    (delete,) = reconcile(service(), [pod("a")], [made, other])
    assert isinstance(delete, Delete)
    assert delete.key == ("default", "web-zz")


PODS = [pod(f"p{number:03}") for number in range(2 * MAX_ENDPOINTS + 50)]


@pytest.mark.parametrize(
    ("now", "sizes"),
    [
        pytest.param([pod("a"), *PODS], [100, 100, 51], id="a new pod that sorts first"),
        pytest.param(PODS[1:], [99, 100, 50], id="the first pod is deleted"),
        pytest.param([pod("p000", ready=False), *PODS[1:]], [100, 100, 50], id="one is no longer ready"),
        pytest.param([pod("a"), *PODS[1:]], [100, 100, 50], id="the first is replaced"),
    ],
)
def test_change_of_one_pod_writes_one_slice(now: list[Json], sizes: list[int]) -> None:
    before = stored(service(), *PODS)
    (patch,) = reconcile(service(), now, before)
    assert isinstance(patch, Patch)
    after = [each | patch.patch if key_of(each) == patch.key else each for each in before]
    assert [len(each["endpoints"]) for each in after] == sizes
    assert {e["targetRef"]["uid"] for each in after for e in each["endpoints"]} == {
        each["metadata"]["uid"] for each in now
    }


def test_endpoint_that_two_slices_list_stays_in_the_first() -> None:
    (made,) = stored(service(), pod("a"))
    (second,) = stored(service(), pod("a"), pod("b"))
    second["metadata"]["name"] = "web-zz"
    (patch,) = reconcile(service(), [pod("a"), pod("b")], [made, second])
    assert isinstance(patch, Patch)
    assert (patch.key[1], [e["targetRef"]["uid"] for e in patch.patch["endpoints"]]) == ("web-zz", ["b"])


def test_changed_ports_keep_the_slice() -> None:
    before = stored(service(), pod("a"))
    (patch,) = reconcile(service({"port": 80, "targetPort": 9090}), [pod("a")], before)
    assert isinstance(patch, Patch)
    assert patch.patch == {"ports": [{"name": "", "port": 9090, "protocol": "TCP"}]}


def test_new_slice_does_not_take_the_name_of_a_present_one() -> None:
    (made,) = stored(service(), pod("p000"))
    made["endpoints"] = stored(service(), *PODS[1:101])[0]["endpoints"]
    (creation,) = [a for a in reconcile(service(), PODS[:101], [made]) if isinstance(a, Create)]
    assert creation.obj["metadata"]["name"] != made["metadata"]["name"]


def test_service_without_pods_has_an_empty_slice() -> None:
    (made,) = slices(service())
    assert (made["endpoints"], made["ports"]) == ([], [])
