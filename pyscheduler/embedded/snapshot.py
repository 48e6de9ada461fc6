"""Snapshots: all objects of an API server as one List, and the reverse for those and for dumps of other clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.hollow.node_types import HEARTBEATS, STOPPED
from pyscheduler.embedded.objects import Json, condition, key_of, owners_of
from pyscheduler.embedded.resources import Resource
from pyscheduler.embedded.status import ApiStatusError
from pyscheduler.embedded.verbs.restore import decode

TEMPORARY: Final = ("Event", "Lease")
"""Kinds that are left out: they describe a moment, and their holders do not exist any more."""
_FIRST: Final = ("Namespace", "CustomResourceDefinition")
_DEFAULT_NAMESPACE: Final = "default"


class PlacedObject(NamedTuple):
    """Object of a file, and its place there for error messages."""

    place: str
    object: Json


class RestoreError(Exception):
    """An object cannot be stored; the message begins with its place."""


@dataclass
class RestoreSummary:
    """Number of stored objects by kind, and what was left out; an object that is listed several times counts once."""

    stored: Counter[str] = field(default_factory=Counter)
    not_served: Counter[str] = field(default_factory=Counter)
    without_owner: int = 0
    """Objects of which references to owners that are not in the files were removed."""


def snapshot(api: Api) -> bytes:
    """Return all objects as a List in JSON, without Events and Leases, one object a line."""
    return encode_list(_stored(api))


def encode_list(objects: Iterable[Json]) -> bytes:
    """Return a List in JSON, one object a line."""
    items = b",\n".join(msgspec.json.encode(obj) for obj in objects)
    return b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n' + items + b"\n]}\n"


def _stored(api: Api) -> Iterator[Json]:
    store, registry = api.state.store, api.state.registry
    for bucket in sorted(store.buckets()):
        for version in store.scan(bucket):
            resource = registry.stored_in(bucket)
            if resource.kind not in TEMPORARY:
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **version.object}


def restore_objects(api: Api, objects: Sequence[PlacedObject]) -> RestoreSummary:
    """Store the objects of a dump or a snapshot with uid and status: assigned pods stay on their nodes.

    Namespaces that are missing are created. References to owners that are missing are removed, or garbage collection
    would delete the object; a node that is not ready gets no heartbeats. RestoreError names the place.
    """
    kept = [placed for placed in objects if placed.object["kind"] not in TEMPORARY]
    first = [placed for placed in kept if placed.object["kind"] in _FIRST]
    restorer = _Restorer(api, {str(placed.object["metadata"].get("uid")) for placed in kept})
    restorer.restore_all([*first, *_missing_namespaces(api, kept)])
    api.run_controllers()  # fills namespaces, before their objects replace what is created there
    restorer.restore_all(placed for placed in kept if placed.object["kind"] not in _FIRST)
    api.run_controllers()
    return restorer.summary


class _Restorer:
    """Stores objects one by one, and counts them."""

    def __init__(self, api: Api, uids: Collection[str]) -> None:
        """`uids` are those of all objects in the files."""
        self._api, self._uids = api, uids
        self.summary = RestoreSummary()
        self._resources: dict[tuple[str, str], Resource | None] = {}
        self._counted: set[tuple[str, ...]] = set()
        self._without_owner: set[tuple[str, ...]] = set()

    def restore_all(self, objects: Iterable[PlacedObject]) -> None:
        for placed in objects:
            version, kind = str(placed.object["apiVersion"]), str(placed.object["kind"])
            resource = self._resource(version, kind)
            if resource is None:
                meta = placed.object["metadata"]
                key: tuple[str, ...] = (
                    version,
                    kind,
                    str(meta.get("namespace") or _DEFAULT_NAMESPACE),
                    str(meta.get("name")),
                )
                self._count(self.summary.not_served, f"{kind} ({version})", key)
                continue
            try:
                key = self._restore(resource, placed.object)
            except ApiStatusError as error:
                raise RestoreError(f"{placed.place}: {error.message}") from None
            self._count(self.summary.stored, kind, key)
        self.summary.without_owner = len(self._without_owner)

    def _count(self, counter: Counter[str], name: str, key: tuple[str, ...]) -> None:
        """Count an object, unless it replaces one that is counted already."""
        if key not in self._counted:
            self._counted.add(key)
            counter[name] += 1

    def _resource(self, version: str, kind: str) -> Resource | None:
        found = self._resources.get((version, kind))
        if found is None:  # not cached if missing: its definition may follow
            found = self._resources[version, kind] = self._api.state.registry.of_kind(version, kind)
        return found

    def _restore(self, resource: Resource, body: Json) -> tuple[str, ...]:
        """Store one object, and return its bucket and key."""
        obj = decode(resource, body)
        if resource.namespaced and not obj["metadata"].get("namespace"):
            obj["metadata"]["namespace"] = _DEFAULT_NAMESPACE
        self._without_owner.discard(key := (resource.bucket, *map(str, key_of(obj))))
        living = [owner for owner in owners_of(obj) if owner.get("uid") in self._uids]
        if len(living) < len(owners_of(obj)):
            obj["metadata"]["ownerReferences"] = living
            self._without_owner.add(key)
        if resource.kind == "Node":
            _stop_if_not_ready(obj)
        self._api.restore(resource, obj)
        return key


def _missing_namespaces(api: Api, objects: Iterable[PlacedObject]) -> list[PlacedObject]:
    listed = {placed.object["metadata"].get("name") for placed in objects if placed.object["kind"] == "Namespace"}
    existing = {version.key[1] for version in api.state.store.scan("namespaces")}
    wanted = {str(placed.object["metadata"].get("namespace") or _DEFAULT_NAMESPACE): placed.place for placed in objects}
    return [
        PlacedObject(place, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name, place in wanted.items()
        if name not in listed | existing
    ]


def _stop_if_not_ready(node: Json) -> None:
    if condition(node, "Ready").get("status", "True") != "True":
        annotations = node["metadata"].get("annotations") or {}
        node["metadata"]["annotations"] = {**annotations, HEARTBEATS: STOPPED}
