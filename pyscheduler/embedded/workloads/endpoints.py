"""EndpointSlices of Services: the addresses of their pods, by ports.

Left out: Endpoints objects, dual stack, topology hints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyscheduler.embedded.client.kinds import ENDPOINT_SLICES
from pyscheduler.embedded.objects import Json, dig
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch
from pyscheduler.embedded.workloads.deployment import template_hash
from pyscheduler.embedded.workloads.objects import is_deleting, is_ready, key_of, owned_by, phase, uid_of

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
MAX_ENDPOINTS = 100
"""Endpoints of one slice, as kube-controller-manager's default."""
_NAME_LETTERS = 5


def reconcile(service: Json, pods: Iterable[Json], slices: Iterable[Json]) -> list[Action]:
    """Return the actions that make the `slices` of a Service list its `pods`, which its selector matches."""
    desired = {each["metadata"]["name"]: each for each in _desired(service, pods)}
    present = {key_of(each)[1]: each for each in slices}
    actions: list[Action] = [
        Create(ENDPOINT_SLICES, each, ignore_already_exists=True)
        for name, each in desired.items()
        if name not in present
    ]
    for name, each in present.items():
        if name not in desired:
            actions.append(Delete(ENDPOINT_SLICES, key_of(each), uid_of(each)))
        elif changed := _difference(each, desired[name]):
            actions.append(Patch(ENDPOINT_SLICES, key_of(each), changed))
    return actions


def _difference(present: Json, desired: Json) -> Json:
    return {field: desired[field] for field in ("endpoints", "ports") if present.get(field) != desired[field]}


def _desired(service: Json, pods: Iterable[Json]) -> list[Json]:
    by_ports: dict[str, tuple[list[Json], list[Json]]] = {}
    for pod in sorted(pods, key=key_of):
        if dig(pod, "status", "podIP") and phase(pod) not in ("Failed", "Succeeded"):
            ports = _ports(service, pod)
            by_ports.setdefault(repr(ports), (ports, []))[1].append(_endpoint(service, pod))
    if not by_ports:
        by_ports[""] = ([], [])  # a Service without pods has one empty slice
    return [
        _slice(service, ports, endpoints[start : start + MAX_ENDPOINTS], start)
        for ports, endpoints in by_ports.values()
        for start in range(0, max(1, len(endpoints)), MAX_ENDPOINTS)
    ]


def _ports(service: Json, pod: Json) -> list[Json]:
    """Return the ports of the pod; a named target port that it lacks is omitted."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _target(port, pod)
        if number is not None:
            protocol = port.get("protocol", "TCP")
            found.append({"name": port.get("name", ""), "port": number, "protocol": protocol})
    return found


def _target(port: Json, pod: Json) -> int | None:
    target: Any = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for container in pod["spec"].get("containers") or ():
        for each in container.get("ports") or ():
            if each.get("name") == target and each.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return int(each["containerPort"])
    return None


def _endpoint(service: Json, pod: Json) -> Json:
    meta, terminating = pod["metadata"], is_deleting(pod)
    serving = is_ready(pod)
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    ready = published or (serving and not terminating)
    subdomain = pod["spec"].get("subdomain")
    named = subdomain == service["metadata"]["name"] and pod["spec"].get("hostname")
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]},
        **({"hostname": named} if named else {}),
    }


def _slice(service: Json, ports: list[Json], endpoints: list[Json], start: int) -> Json:
    meta = service["metadata"]
    suffix = template_hash({"ports": ports, "start": start})[:_NAME_LETTERS]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{meta['name']}-{suffix}",
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), SERVICE_LABEL: meta["name"], MANAGED_BY_LABEL: MANAGER},
            "ownerReferences": [owned_by(service, "Service", "v1")],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }
