"""Devices of hollow nodes: the ResourceSlices that a driver's kubelet plugin would publish.

A label or annotation of a node `devices.pyscheduler.io/<driver>` has the number of its devices, or as annotation JSON:
`{"count": 8, "attributes": {"model": "a100", "index": 1, "shared": true}, "capacity": {"memory": "80Gi"}}`.
Nothing is prepared on the node: a pod that has its devices allocated runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyscheduler.api.quantity import QuantityError, nano_value
from pyscheduler.embedded.client.kinds import RESOURCE_SLICES
from pyscheduler.embedded.objects import Json, dig, labels_of
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, RecordAction
from pyscheduler.embedded.workloads.deployment import template_hash
from pyscheduler.embedded.workloads.objects import is_deleting, key_of, uid_of
from pyscheduler.kube.numbers import natural

DEVICES: Final = "devices.pyscheduler.io/"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "hollow-devices"}
MAX_IN_SLICE: Final = 128
"""Limit of the API."""
MAX_DEVICES: Final = 1024
"""Limit for one driver on one node."""
_MAX_TEXT: Final = 64
_MAX_NAME: Final = 240
_FIELDS: Final = {"count", "attributes", "capacity"}


class DevicesError(ValueError):
    """An invalid description of devices."""


def reconcile(node: Json, slices: Iterable[Json]) -> list[Action]:
    """Return what makes the `slices` of a node, which this driver manages, show the devices that it describes."""
    present = {key_of(each)[1]: each for each in slices}
    actions: list[Action] = []
    desired: dict[str, Json] = {}
    if not is_deleting(node):
        for driver, text in _described(node):
            try:
                desired |= _slices(node, driver, _devices(text), present)
            except DevicesError as error:
                text = f"{DEVICES}{driver}: {error}; its devices stay as they are"
                actions.append(RecordAction(node, "InvalidDevices", text, "Warning"))
                desired |= {name: each for name, each in present.items() if each["spec"]["driver"] == driver}
    actions += [
        Create(RESOURCE_SLICES, each, ignore_already_exists=True)
        for name, each in desired.items()
        if name not in present
    ]
    actions += [
        Delete(RESOURCE_SLICES, key_of(each), uid_of(each)) for name, each in present.items() if name not in desired
    ]
    actions += [
        Patch(RESOURCE_SLICES, key_of(each), {"spec": desired[name]["spec"]})
        for name, each in present.items()
        if name in desired and desired[name]["spec"] != each["spec"]
    ]
    return actions


def _described(node: Json) -> Iterator[tuple[str, str]]:
    """Yield the drivers and descriptions; an annotation has precedence over a label."""
    both = {**labels_of(node), **(node["metadata"].get("annotations") or {})}
    for key, text in sorted(both.items()):
        if key.startswith(DEVICES):
            yield key.removeprefix(DEVICES), text


def _devices(text: str) -> list[Json]:
    count, described = natural(text), {}
    if count is None:
        try:
            described = json.loads(text)
        except (ValueError, RecursionError):
            raise DevicesError(f"{text[:50]!r} is neither a number nor JSON") from None
        if not isinstance(described, dict) or (unknown := described.keys() - _FIELDS):
            which = f"unknown field {min(unknown)!r}" if isinstance(described, dict) else "not an object"
            raise DevicesError(f"{which}; the fields are count, attributes and capacity")
        count = described.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MAX_DEVICES:
        raise DevicesError(f"count must be a number from 0 to {MAX_DEVICES}")
    content: Json = {}
    if attributes := _mapping(described, "attributes"):
        content["attributes"] = {name: _attribute(name, value) for name, value in attributes.items()}
    if capacity := _mapping(described, "capacity"):
        content["capacity"] = {name: {"value": _quantity(name, value)} for name, value in capacity.items()}
    return [{"name": f"device-{number}", **content} for number in range(count)]


def _mapping(described: Json, field: str) -> Json:
    found = described.get(field) or {}
    if not isinstance(found, dict):
        raise DevicesError(f"{field} must be an object")
    return found


def _attribute(name: str, value: Any) -> Json:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int) and abs(value) < 2**63:
        return {"int": value}
    if isinstance(value, str) and len(value) <= _MAX_TEXT:
        return {"string": value}
    raise DevicesError(f"attributes.{name} must be a boolean, a number of 64 bits, or a string of up to {_MAX_TEXT}")


def _quantity(name: str, value: Any) -> str:
    try:
        nano_value(value)
    except QuantityError as error:
        raise DevicesError(f"capacity.{name}: {error}") from None
    return str(value)


def _slices(node: Json, driver: str, devices: list[Json], present: dict[str, Json]) -> dict[str, Json]:
    """Return the slices of one driver by name. A change gives the whole pool a new generation."""
    chunks = [devices[at : at + MAX_IN_SLICE] for at in range(0, len(devices), MAX_IN_SLICE)]
    mine = [each for each in present.values() if each["spec"]["driver"] == driver]
    newest = max((int(dig(each, "spec", "pool", "generation") or 0) for each in mine), default=0)
    same = _made(node, driver, chunks, max(1, newest))
    if not mine or {name: each["spec"] for name, each in same.items()} == {
        key_of(each)[1]: each["spec"] for each in mine
    }:
        return same
    return _made(node, driver, chunks, newest + 1)


def _made(node: Json, driver: str, chunks: list[list[Json]], generation: int) -> dict[str, Json]:
    node_name = key_of(node)[1]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": uid_of(node), "controller": True}
    pool = {"name": node_name, "generation": generation, "resourceSliceCount": len(chunks)}
    made = {}
    for number, devices in enumerate(chunks):
        name = _name(node_name, driver, number)
        made[name] = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name, "labels": MANAGED_BY, "ownerReferences": [owner]},
            "spec": {"driver": driver, "nodeName": node_name, "pool": pool, "devices": devices},
        }
    return made


def _name(node: str, driver: str, number: int) -> str:
    name = f"{node}-{driver}-{number}"
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME].rstrip('-.')}-{template_hash({'of': name})}"
