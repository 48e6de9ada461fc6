"""Columns of kinds that are not workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyscheduler.embedded.columns.column import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Obj,
    at,
    joined,
    since,
    wide,
)
from pyscheduler.embedded.objects import condition, dig

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _node_status(node: Obj, _now: float) -> str:
    ready = condition(node, "Ready")
    word = "Unknown" if not ready else "Ready" if ready.get("status") == "True" else "NotReady"
    return word + (",SchedulingDisabled" if dig(node, "spec", "unschedulable") else "")


def _roles(node: Obj, _now: float) -> str:
    labels: Mapping[str, str] = dig(node, "metadata", "labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {labels[_ROLE_LABEL]} if labels.get(_ROLE_LABEL) else set()
    return joined(sorted(roles - {""})) or NONE


def _address(kind: str) -> Callable[[Obj, float], str]:
    def cell(node: Obj, _now: float) -> str:
        found = [a.get("address", "") for a in dig(node, "status", "addresses") or () if a.get("type") == kind]
        return found[0] if found else NONE

    return cell


def _info(field: str) -> Callable[[Obj, float], Any]:
    return lambda node, _now: dig(node, "status", "nodeInfo", field) or UNKNOWN


def _kernel(node: Obj, _now: float) -> str:
    info = dig(node, "status", "nodeInfo") or {}
    return (info.get("kernelVersion") or UNKNOWN) + (f" ({info['architecture']})" if info.get("architecture") else "")


NODE = (
    NAME,
    Column("Status", _node_status),
    Column("Roles", _roles),
    AGE,
    Column("Version", at("status", "nodeInfo", "kubeletVersion")),
    wide("Internal-IP", _address("InternalIP")),
    wide("External-IP", _address("ExternalIP")),
    wide("OS-Image", _info("osImage")),
    wide("Kernel-Version", _kernel),
    wide("Container-Runtime", _info("containerRuntimeVersion")),
)
NAMESPACE = (NAME, Column("Status", at("status", "phase")), AGE)


def _first_seen(event: Obj, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Obj, now: float) -> str:
    last = dig(event, "series", "lastObservedTime") or event.get("lastTimestamp")
    return since(last, now) if last else _first_seen(event, now)


def _subject(event: Obj, _now: float) -> str:
    involved = event.get("involvedObject") or {}
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: Obj, _now: float) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _count(event: Obj, _now: float) -> int:
    return dig(event, "series", "count") or event.get("count") or 1


EVENT = (
    Column("Last Seen", _last_seen),
    Column("Type", at("type")),
    Column("Reason", at("reason")),
    Column("Object", _subject),
    wide("Subobject", at("involvedObject", "fieldPath")),
    wide("Source", _source),
    Column("Message", lambda event, _now: str(event.get("message") or "").strip()),
    wide("First Seen", _first_seen),
    wide("Count", _count),
    Column("Name", at("metadata", "name"), priority=1, format="name"),
)
LEASE = (NAME, Column("Holder", at("spec", "holderIdentity")), AGE)


def _data(obj: Obj, _now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


CONFIGMAP = (NAME, Column("Data", _data), AGE)
SECRET = (NAME, Column("Type", at("type")), Column("Data", _data), AGE)


def _ports(service: Obj, _now: float) -> str:
    ports = dig(service, "spec", "ports") or ()
    texts = (
        f"{p.get('port')}" + (f":{p['nodePort']}" if p.get("nodePort") else "") + f"/{p.get('protocol', 'TCP')}"
        for p in ports
    )
    return joined(texts) or NONE


def _labels_at(*path: str) -> Callable[[Obj, float], str]:
    def cell(obj: Obj, _now: float) -> str:
        return joined(f"{key}={value}" for key, value in sorted((dig(obj, *path) or {}).items())) or NONE

    return cell


def _external(service: Obj, _now: float) -> str:
    spec = service.get("spec") or {}
    addresses = list(spec.get("externalIPs") or ())
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    if spec.get("type") == "LoadBalancer":
        points = dig(service, "status", "loadBalancer", "ingress") or ()
        addresses = [*(point.get("ip") or point.get("hostname") or "" for point in points), *addresses]
        return joined(addresses) or "<pending>"
    return joined(addresses) or NONE


SERVICE = (
    NAME,
    Column("Type", at("spec", "type")),
    Column("Cluster-IP", at("spec", "clusterIP", default=NONE)),
    Column("External-IP", _external),
    Column("Port(s)", _ports),
    AGE,
    wide("Selector", _labels_at("spec", "selector")),
)
PRIORITY_CLASS = (
    NAME,
    Column("Value", at("value", default=0), type="integer"),
    Column("Global-Default", at("globalDefault", default=False), type="boolean"),
    AGE,
    Column("PreemptionPolicy", at("preemptionPolicy")),
)


def _modes(obj: Obj, _now: float) -> str:
    modes = dig(obj, "spec", "accessModes") or ()
    return joined(_MODES.get(mode, mode) for mode in modes)


def _phase(obj: Obj, _now: float) -> str:
    return "Terminating" if dig(obj, "metadata", "deletionTimestamp") else str(dig(obj, "status", "phase") or "")


def _claim(volume: Obj, _now: float) -> str:
    claim = dig(volume, "spec", "claimRef")
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


_STORAGE = (
    Column("StorageClass", at("spec", "storageClassName")),
    Column("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default="<unset>")),
)
_VOLUME_MODE = wide("VolumeMode", at("spec", "volumeMode", default="<unset>"))
VOLUME = (
    NAME,
    Column("Capacity", at("spec", "capacity", "storage")),
    Column("Access Modes", _modes),
    Column("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy")),
    Column("Status", _phase),
    Column("Claim", _claim),
    *_STORAGE,
    Column("Reason", at("status", "reason")),
    AGE,
    _VOLUME_MODE,
)
CLAIM = (
    NAME,
    Column("Status", _phase),
    Column("Volume", at("spec", "volumeName")),
    Column("Capacity", at("status", "capacity", "storage")),
    Column("Access Modes", _modes),
    *_STORAGE,
    AGE,
    _VOLUME_MODE,
)
STORAGE_CLASS = (
    NAME,
    Column("Provisioner", at("provisioner")),
    Column("ReclaimPolicy", at("reclaimPolicy")),
    Column("VolumeBindingMode", at("volumeBindingMode")),
    Column("AllowVolumeExpansion", at("allowVolumeExpansion", default=False)),
    AGE,
)
CSI_NODE = (NAME, Column("Drivers", lambda obj, _now: len(dig(obj, "spec", "drivers") or ()), type="integer"), AGE)
CSI_CAPACITY = (
    NAME,
    Column("StorageClassName", at("storageClassName")),
    Column("Capacity", at("capacity")),
)
ATTACHMENT = (
    NAME,
    Column("Attacher", at("spec", "attacher")),
    Column("PV", at("spec", "source", "persistentVolumeName")),
    Column("Node", at("spec", "nodeName")),
    Column("Attached", at("status", "attached", default=False), type="boolean"),
    AGE,
)
CRD = (NAME, Column("Created At", at("metadata", "creationTimestamp"), type="date"))


def _claim_state(claim: Obj, _now: float) -> str:
    if dig(claim, "metadata", "deletionTimestamp"):
        return "deleting"
    if dig(claim, "status", "allocation") is None:
        return "pending"
    return "allocated,reserved" if dig(claim, "status", "reservedFor") else "allocated"


RESOURCE_CLAIM = (NAME, Column("State", _claim_state), AGE)
RESOURCE_SLICE = (
    NAME,
    Column("Node", at("spec", "nodeName")),
    Column("Driver", at("spec", "driver")),
    Column("Pool", at("spec", "pool", "name")),
    AGE,
)
