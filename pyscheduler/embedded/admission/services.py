"""Admission of Services: defaults, cluster IPs and node ports.

Addresses and ports are given as in a cluster, so that clients find them; nothing routes packets. The next free one is
taken: the ranges are those of kubeadm.
"""

from __future__ import annotations

from ipaddress import IPv4Address

from pyscheduler.embedded.admission.service_allocations import (
    CLUSTER_IPS,
    NODE_PORTS,
    NumberAllocator,
    ServiceAllocations,
    address_of,
    addresses_of,
    ports_of,
)
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.resources import Lookup, Rules
from pyscheduler.embedded.status import Cause, duplicate, internal_error, invalid, invalid_value, required, unsupported

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
    """Give a new Service its cluster IP and node ports. ApiStatusError 422 if one that it names is not free.

    500 if a range is used up.
    """
    if service["spec"]["type"] != "ExternalName":
        _allocate(service, None, lookup)


def _allocate(service: Json, old: Json | None, lookup: Lookup) -> None:
    allocations = lookup.index(ServiceAllocations)
    _allocate_ip(service, addresses_of(old) if old else set(), allocations.addresses)
    if service["spec"].get("type") in _WITH_NODE_PORTS:
        _allocate_ports(service, ports_of(old) if old else None, allocations.ports)


def _allocate_ip(service: Json, own: set[int], pool: NumberAllocator) -> None:
    spec, name = service["spec"], service["metadata"]["name"]
    wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    number = address_of(wanted)
    if not wanted:
        number = next(pool.free(), None)
        if number is None:
            raise internal_error(f'failed to allocate a serviceIP for Service "{name}": range is full')
        wanted = str(IPv4Address(number))
    elif wanted != HEADLESS and number is None:
        why = f"failed to allocate IP {wanted}: the provided IP ({wanted}) is not in the valid range"
        raise _rejected(service, invalid_value("spec.clusterIPs", [wanted], f"{why}. The range is {CLUSTER_IPS}"))
    elif number is not None and number in pool and number not in own:
        why = f"failed to allocate IP {wanted}: provided IP is already allocated"
        raise _rejected(service, invalid_value("spec.clusterIPs", [wanted], why))
    spec |= {"clusterIP": wanted, "clusterIPs": [wanted]}
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _allocate_ports(service: Json, before: set[int] | None, pool: NumberAllocator) -> None:
    """Give node ports; a new Service has one for equal ports of two protocols. `before` are those of its old state."""
    spec = service["spec"]
    ports = spec.get("ports") or ()
    automatic = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
    own = before or set()
    named = ports_of(service)
    free = (number for number in pool.free() if number not in named)
    by_port = (
        {} if before is not None else {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")}
    )
    for index, port in enumerate(ports):
        wanted = port.get("nodePort") or by_port.get(port.get("port"))
        if not wanted and not automatic:
            continue
        if not wanted:
            wanted = next(free, None)
            if wanted is None:
                raise internal_error("failed to allocate a nodePort: range is full")
        elif wanted in pool and wanted not in own:
            cause = invalid_value(f"spec.ports[{index}].nodePort", wanted, "provided port is already allocated")
            raise _rejected(service, cause)
        elif wanted not in NODE_PORTS:
            why = (
                f"provided port is not in the valid range. The range of valid ports is {NODE_PORTS[0]}-{NODE_PORTS[-1]}"
            )
            raise _rejected(service, invalid_value(f"spec.ports[{index}].nodePort", wanted, why))
        port["nodePort"] = wanted
        if before is None:
            by_port[port.get("port")] = wanted


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
    _allocate(service, old, lookup)


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
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        node_port = port.get("protocol", ""), port.get("nodePort") or 0
        if node_port[1] and node_port in node_ports:
            causes.append(duplicate(f"spec.ports[{index}].nodePort", node_port[1]))
        node_ports.add(node_port)
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
