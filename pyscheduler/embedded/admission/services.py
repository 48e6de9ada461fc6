"""Admission of Services: defaults, cluster IPs and node ports.

Addresses and ports are given as in a cluster, so that clients find them; nothing routes packets. The next free one is
taken: the ranges are those of kubeadm.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network

from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, invalid, invalid_value, required, unsupported

CLUSTER_IPS = IPv4Network("10.96.0.0/12")
NODE_PORTS = range(30000, 32768)
API_SERVER_IP = str(CLUSTER_IPS[1])
HEADLESS = "None"
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS = ("LoadBalancer", "NodePort")


def default_service(service: Json, _lookup: Lookup) -> None:
    """Set the defaults of a Service."""
    spec = service.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in _WITH_NODE_PORTS:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    service.setdefault("status", {"loadBalancer": {}})


def allocate(service: Json, lookup: Lookup) -> None:
    """Give a new Service its cluster IP and node ports. ApiStatusError 422 if one that it names is not free."""
    if service["spec"]["type"] != "ExternalName":
        _allocate(service, list(_specs(lookup)))


def _allocate(service: Json, others: list[Json]) -> None:
    spec = service["spec"]
    _allocate_ip(service, {str(other.get("clusterIP", "")) for other in others})
    if spec.get("type") in _WITH_NODE_PORTS and spec.get("allocateLoadBalancerNodePorts", True):
        _allocate_ports(service, {port.get("nodePort") for other in others for port in other.get("ports") or ()})


def _specs(lookup: Lookup) -> Iterator[Json]:
    for version in lookup.scan("services"):
        yield version.object["spec"]


def _allocate_ip(service: Json, used: set[str]) -> None:
    spec = service["spec"]
    wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if not wanted:
        wanted = next(str(each) for each in _free_addresses() if str(each) not in used)
    elif wanted != HEADLESS and wanted in used:
        why = f"failed to allocate IP {wanted}: provided IP is already allocated"
        raise _rejected(service, invalid_value("spec.clusterIPs", [wanted], why))
    elif wanted != HEADLESS and not _is_cluster_ip(wanted):
        why = f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range"
        raise _rejected(service, invalid_value("spec.clusterIPs", [wanted], f"{why}. The range is {CLUSTER_IPS}"))
    spec |= {"clusterIP": wanted, "clusterIPs": [wanted]}
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _free_addresses() -> Iterator[IPv4Address]:
    addresses = CLUSTER_IPS.hosts()
    next(addresses)  # that of the API server
    return addresses


def _is_cluster_ip(text: str) -> bool:
    try:
        return IPv4Address(text) in CLUSTER_IPS
    except ValueError:
        return False


def _allocate_ports(service: Json, used: set[int | None]) -> None:
    for index, port in enumerate(service["spec"].get("ports") or ()):
        wanted = port.get("nodePort")
        if not wanted:
            port["nodePort"] = next(number for number in NODE_PORTS if number not in used)
        elif wanted in used:
            cause = invalid_value(f"spec.ports[{index}].nodePort", wanted, "provided port is already allocated")
            raise _rejected(service, cause)
        elif wanted not in NODE_PORTS:
            why = (
                f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
            )
            raise _rejected(service, invalid_value(f"spec.ports[{index}].nodePort", wanted, why))
        used.add(port["nodePort"])


def _rejected(service: Json, cause: Cause) -> Exception:
    return invalid("Service", "", service["metadata"]["name"], [cause])


def keep_allocations(service: Json, old: Json, lookup: Lookup) -> None:
    """Copy cluster IP and node ports into a new state that does not name them, and give those that it newly needs.

    A port has the node port of the old one of its name.
    """
    spec, before = service.setdefault("spec", {}), old["spec"]
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if not spec.get(name) and name in before:
            spec[name] = before[name]
    ports = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        given = ports.get(port.get("name", ""))
        if kind not in _WITH_NODE_PORTS:
            port.pop("nodePort", None)
        elif given and not port.get("nodePort"):
            port["nodePort"] = given
    _allocate(service, [other for other in _specs(lookup) if other is not before])


def check_service(service: Json) -> list[Cause]:
    """Return the causes that make a Service invalid: an unknown type, and ports that are missing or have no name."""
    spec = service["spec"]
    kind, ports = spec["type"], spec.get("ports") or []
    if kind not in _TYPES:
        return [unsupported("spec.type", kind, _TYPES)]
    if kind == "ExternalName":
        return [] if spec.get("externalName") else [required("spec.externalName")]
    if not ports and spec.get("clusterIP") != HEADLESS:
        return [required("spec.ports")]
    causes = []
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            causes.append(required(f"spec.ports[{index}].name"))
        if not 0 < port.get("port", 0) < 65536:
            why = "must be between 1 and 65535, inclusive"
            causes.append(invalid_value(f"spec.ports[{index}].port", port.get("port", 0), why))
    return causes


def check_service_change(new: Json, old: Json) -> list[Cause]:
    """Return a cause if the cluster IP has changed."""
    after, before = new["spec"].get("clusterIP"), old["spec"].get("clusterIP")
    if not before or after == before or "ExternalName" in (new["spec"]["type"], old["spec"]["type"]):
        return []
    return [invalid_value("spec.clusterIPs[0]", [after], "may not change once set")]


SERVICE = Rules(
    default_service,
    on_create=allocate,
    on_update=keep_allocations,
    check=check_service,
    check_change=check_service_change,
    name_form="label",
)
