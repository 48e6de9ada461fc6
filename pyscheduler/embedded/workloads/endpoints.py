"""EndpointSlices of Services: the addresses of their pods, by ports.

Left out: Endpoints objects, dual stack, topology hints.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
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


@dataclass
class _Contents:
    """A present slice, and the endpoints that it has to list."""

    present: Json
    ports: list[Json]
    endpoints: list[Json]

    @property
    def patch(self) -> Json:
        """The fields that change."""
        wanted = {"endpoints": self.endpoints, "ports": self.ports}
        return {field: value for field, value in wanted.items() if (self.present.get(field) or []) != value}


@dataclass
class _Group:
    """Pods of a Service whose ports are the same numbers: a slice lists no others."""

    ports: list[Json]
    unlisted: dict[str, Json] = field(default_factory=dict)
    """Endpoints that no slice lists yet, by the UID of their pod."""
    slices: list[_Contents] = field(default_factory=list)


def reconcile(service: Json, pods: Iterable[Json], slices: Iterable[Json]) -> list[Action]:
    """Return the actions that make the `slices` of a Service list its `pods`, which its selector matches.

    As in kube-controller-manager an endpoint stays in its slice, and a new one is added to a slice that has room: a
    change of one pod writes one slice, however many there are.
    """
    groups = _groups(service, pods)
    surplus = [each for each in sorted(slices, key=key_of) if not _stays(each, groups)]
    added = [chunk for group in groups.values() for chunk in _fill(group)]
    if not groups:
        added = [([], [])]  # a Service without pods has one empty slice
    changed = [contents for group in groups.values() for contents in group.slices]
    changed += [_Contents(present, *contents) for present, contents in zip(surplus, added, strict=False)]
    names = {key_of(each)[1] for each in surplus} | {key_of(each.present)[1] for each in changed}
    actions: list[Action] = []
    for ports, endpoints in added[len(surplus) :]:
        made = _slice(service, ports, endpoints, names)
        names.add(made["metadata"]["name"])
        actions.append(Create(ENDPOINT_SLICES, made, ignore_already_exists=True))
    actions += [Delete(ENDPOINT_SLICES, key_of(each), uid_of(each)) for each in surplus[len(added) :]]
    actions += [Patch(ENDPOINT_SLICES, key_of(each.present), patch) for each in changed if (patch := each.patch)]
    return actions


def _groups(service: Json, pods: Iterable[Json]) -> dict[Hashable, _Group]:
    groups: dict[Hashable, _Group] = {}
    for pod in sorted(pods, key=key_of):
        if dig(pod, "status", "podIP") and phase(pod) not in ("Failed", "Succeeded"):
            ports = _ports(service, pod)
            group = groups.setdefault(_signature(ports), _Group(ports))
            group.unlisted[uid_of(pod)] = _endpoint(service, pod)
    return groups


def _signature(ports: Iterable[Json]) -> Hashable:
    return tuple((port.get("name"), port.get("port"), port.get("protocol")) for port in ports)


def _stays(item: Json, groups: dict[Hashable, _Group]) -> bool:
    """Return True if the slice lists an endpoint of its group that no slice before it lists."""
    group = groups.get(_signature(item.get("ports") or ()))
    if group is None:
        return False
    listed = (dig(each, "targetRef", "uid") for each in item.get("endpoints") or ())
    endpoints = [group.unlisted.pop(uid) for uid in listed if uid in group.unlisted]
    if endpoints:
        group.slices.append(_Contents(item, group.ports, endpoints))
    return bool(endpoints)


def _fill(group: _Group) -> list[tuple[list[Json], list[Json]]]:
    """Add the unlisted endpoints to the group's slices; return ports and endpoints of the slices it needs in addition.

    Slices that change anyway come first, then the fullest.
    """
    unlisted = list(group.unlisted.values())
    for contents in sorted(group.slices, key=lambda each: (not each.patch, -len(each.endpoints))):
        room = MAX_ENDPOINTS - len(contents.endpoints)
        contents.endpoints += unlisted[:room]
        del unlisted[:room]
    return [(group.ports, unlisted[at : at + MAX_ENDPOINTS]) for at in range(0, len(unlisted), MAX_ENDPOINTS)]


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


def _slice(service: Json, ports: list[Json], endpoints: list[Json], taken: Container[str]) -> Json:
    """Return a new slice. Its name depends on its first endpoint, so that a stale cache does not create it again."""
    meta, first = service["metadata"], dig(endpoints[0], "targetRef", "uid") if endpoints else ""
    suffixes = (template_hash({"ports": ports, "first": first, "attempt": n})[:_NAME_LETTERS] for n in count())
    name = next(name for suffix in suffixes if (name := f"{meta['name']}-{suffix}") not in taken)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), SERVICE_LABEL: meta["name"], MANAGED_BY_LABEL: MANAGER},
            "ownerReferences": [owned_by(service, "Service", "v1")],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }
