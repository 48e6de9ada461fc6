"""Services get cluster IPs and node ports, keep them over updates, and are checked."""

from __future__ import annotations

from typing import Any

import pytest

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
