"""Services get cluster IPs and node ports, keep them over updates, and are checked."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.admission.service_allocations import CLUSTER_IPS, NumberAllocator, ServiceAllocations

from .builders import MERGE, Cluster, Json, api_error, fields_of


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def service(name: str = "web", *ports: Json, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"ports": list(ports) or [{"port": 80}], **spec}}


def spec_of(cluster: Cluster, *args: Any, **spec: Any) -> Json:
    stored: Json = cluster.create("services", service(*args, **spec))["spec"]
    return stored


def node_ports(spec: Json) -> list[int | None]:
    return [port.get("nodePort") for port in spec["ports"]]


def test_each_service_gets_an_address_of_its_own(cluster: Cluster) -> None:
    first, second = spec_of(cluster, "a"), spec_of(cluster, "b")
    assert (first["clusterIP"], second["clusterIP"]) == ("10.96.0.2", "10.96.0.3")
    assert first["clusterIPs"] == ["10.96.0.2"]
    assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert node_ports(first) == [None]


def test_released_address_is_used_again(cluster: Cluster) -> None:
    spec_of(cluster, "a")
    cluster.api.delete(cluster.api.resource("services"), "default", "a")
    assert spec_of(cluster, "b")["clusterIP"] == "10.96.0.2"


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        pytest.param({"clusterIP": "None"}, "None", id="headless"),
        pytest.param({"clusterIP": "10.96.7.7"}, "10.96.7.7", id="chosen by the client"),
        pytest.param({"type": "ExternalName", "externalName": "example.com"}, None, id="external name"),
    ],
)
def test_service_without_an_allocated_address(cluster: Cluster, spec: Json, address: str | None) -> None:
    assert spec_of(cluster, **spec).get("clusterIP") == address


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"clusterIP": "10.96.0.1"}, "spec.clusterIPs", id="address in use"),
        pytest.param({"clusterIP": "192.168.0.1"}, "spec.clusterIPs", id="address out of range"),
        pytest.param({"clusterIP": "web"}, "spec.clusterIPs", id="no address"),
        pytest.param({"type": "Port"}, "spec.type", id="unknown type"),
        pytest.param({"type": "ExternalName"}, "spec.externalName", id="no external name"),
        pytest.param({"ports": []}, "spec.ports", id="no ports"),
        pytest.param({"ports": [{"port": 0}]}, "spec.ports[0].port", id="port out of range"),
        pytest.param({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}, "spec.ports[0].name", id="no port name"),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]},
            "spec.ports[0].nodePort",
            id="node port out of range",
        ),
        pytest.param(
            {"type": "NodePort", "ports": [{"port": n, "name": f"n{n}", "nodePort": 30053} for n in (1, 2)]},
            "spec.ports[1].nodePort",
            id="node port twice",
        ),
    ],
)
def test_invalid_service_is_rejected(cluster: Cluster, spec: Json, field: str) -> None:
    assert fields_of(api_error(lambda: spec_of(cluster, **spec))) == [field]


def test_node_ports_are_given_to_node_ports_and_load_balancers(cluster: Cluster) -> None:
    first = spec_of(cluster, "a", {"port": 1, "name": "a"}, {"port": 2, "name": "b"}, type="NodePort")
    assert node_ports(first) == [30000, 30001]
    assert node_ports(spec_of(cluster, "b", type="LoadBalancer")) == [30002]
    without = spec_of(cluster, "c", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert node_ports(without) == [None]
    taken = service("d", {"port": 1, "nodePort": 30001}, type="NodePort")
    assert fields_of(api_error(lambda: cluster.create("services", taken))) == ["spec.ports[0].nodePort"]


DNS = ({"port": 53, "name": "tcp"}, {"port": 53, "name": "udp", "protocol": "UDP"})


@pytest.mark.parametrize("chosen", [{}, {"nodePort": 30053}], ids=["given", "chosen by the client"])
def test_protocols_of_one_port_share_a_node_port(cluster: Cluster, chosen: Json) -> None:
    spec = spec_of(cluster, "dns", *({**port, **chosen} for port in DNS), type="NodePort")
    assert node_ports(spec) == [chosen.get("nodePort", 30000)] * 2
    patched = cluster.patch("services", "dns", {"spec": {"sessionAffinity": "ClientIP"}}, MERGE)["spec"]
    assert node_ports(patched) == node_ports(spec)


def test_node_port_of_another_service_is_not_shared(cluster: Cluster) -> None:
    spec_of(cluster, "a", {**DNS[0], "nodePort": 30053}, type="NodePort")
    other = service("b", {**DNS[1], "nodePort": 30053}, type="NodePort")
    assert fields_of(api_error(lambda: cluster.create("services", other))) == ["spec.ports[0].nodePort"]


def test_used_up_ranges_are_an_internal_error(cluster: Cluster) -> None:
    allocations = cluster.api.state.store.index(ServiceAllocations)
    first = int(CLUSTER_IPS[2])
    allocations.addresses, allocations.ports = (
        NumberAllocator(range(first, first + 1)),
        NumberAllocator(range(30000, 30001)),
    )
    spec_of(cluster, "a", type="NodePort")
    texts = [
        api_error(lambda: spec_of(cluster, "b")).body()["message"],
        api_error(lambda: spec_of(cluster, "c", clusterIP="None", type="NodePort")).body()["message"],
    ]
    assert texts == [
        'Internal error occurred: failed to allocate a serviceIP for Service "b": range is full',
        "Internal error occurred: failed to allocate a nodePort: range is full",
    ]


def test_released_numbers_are_free_again() -> None:
    pool = NumberAllocator(range(4))
    for number in range(4):
        pool.take(number)
    assert list(pool.free()) == []
    pool.release(2)
    pool.release(1)
    assert list(pool.free()) == [1, 2]


def test_creation_does_not_scan_the_services(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_of(cluster, "a", type="NodePort")
    monkeypatch.setattr(cluster.api.state.store, "scan", lambda *_args: pytest.fail("scan"))
    assert spec_of(cluster, "b", type="NodePort")["clusterIP"] == "10.96.0.3"


def test_update_without_addresses_keeps_them(cluster: Cluster) -> None:
    before = spec_of(cluster, "web", {"port": 80, "name": "a"}, type="NodePort")
    ports = ({"port": 8080, "name": "a"}, {"port": 81, "name": "b"})
    after = cluster.update("services", service("web", *ports, type="NodePort"))["spec"]
    assert after["clusterIP"] == before["clusterIP"]
    assert node_ports(after) == [30000, 30001]


def test_change_of_type_gives_and_takes_node_ports(cluster: Cluster) -> None:
    spec_of(cluster, "web")
    assert node_ports(cluster.patch("services", "web", {"spec": {"type": "NodePort"}}, MERGE)["spec"]) == [30000]
    assert node_ports(cluster.patch("services", "web", {"spec": {"type": "ClusterIP"}}, MERGE)["spec"]) == [None]


def test_address_does_not_change(cluster: Cluster) -> None:
    spec_of(cluster, "web")
    change = {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
    assert fields_of(api_error(lambda: cluster.patch("services", "web", change, MERGE))) == ["spec.clusterIPs[0]"]
