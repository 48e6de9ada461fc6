"""Initial state of a workload: namespaces, nodes, other objects, bound pods.

It is created once for all turns; only objects that a turn has removed are recreated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from bench.bulk import BulkClient, missing
from bench.manifests import Batch, collection
from bench.program import Program

_NAMESPACES = collection("Namespace")


@dataclass(frozen=True)
class MissingObjects:
    """Numbers of the objects of a batch that no longer exist."""

    batch: Batch
    numbers: Sequence[int]


class ObjectDeleter(Protocol):
    """Deletion by API path, without grace period."""

    async def delete_each(self, paths: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""

    async def delete_all(self, path: str) -> None:
        """Delete a whole collection."""


@dataclass
class ClusterSetup:
    """State that all turns share. The API server must have no other writers."""

    bulk: BulkClient
    deleter: ObjectDeleter
    _nodes: list[Batch] = field(default_factory=list)
    _shared: list[Batch] = field(default_factory=list)
    _namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def prepare(self, program: Program) -> None:
        """Create the initial state of the program; objects of an earlier program are deleted."""
        for batch in [*reversed(self._shared), *self._nodes]:
            await self._remove(batch)
        self._nodes, self._shared = list(program.nodes), list(program.shared)  # set first: creation may fail halfway
        await self._create_namespaces(program.namespaces)
        for batch in [*program.nodes, *program.shared]:
            await self.bulk.create(batch)

    async def find_missing(self) -> list[MissingObjects]:
        """Return objects that the last turn removed: victims of preemption, deleted pods, changed objects."""
        found = []
        by_path: defaultdict[str, list[Batch]] = defaultdict(list)
        for batch in [*self._nodes, *self._shared]:
            by_path[batch.path].append(batch)
        for path, batches in by_path.items():
            if await self.bulk.count(path) < sum(batch.count for batch in batches):
                names = await self.bulk.names(path)
                found += [MissingObjects(batch, numbers) for batch in batches if (numbers := missing(batch, names))]
        return found

    async def restore(self, objects: Sequence[MissingObjects]) -> None:
        """Recreate missing objects."""
        for each in objects:
            await self.bulk.create(each.batch, each.numbers)

    async def clear(self, pods: Sequence[Batch], namespaces: Sequence[str]) -> None:
        """Delete these pods, all Events, and the claims that the contender has allocated or created."""
        for batch in pods:
            await self._remove(batch)
        if any(batch.path == collection("DeviceClass") for batch in self._shared):
            for namespace in namespaces:
                await self._remove_claims(collection("ResourceClaim", namespace))
        for namespace in namespaces:
            await self.deleter.delete_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")

    async def _remove(self, batch: Batch) -> None:
        await self.deleter.delete_each(f"{batch.path}/{name}" for name in batch.names())

    async def _remove_claims(self, path: str) -> None:
        """Delete all claims of a namespace. No controller runs that would remove the finalizer of allocated ones."""
        paths = [f"{path}/{name}" for name in await self.bulk.names(path)]
        await self.bulk.merge_each(paths, b'{"metadata":{"finalizers":null}}')
        await self.deleter.delete_each(paths)

    async def _create_namespaces(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """Create namespaces with their labels, and the service account that pods need."""
        for name, labels in wanted.items():
            if self._namespaces.get(name) == labels:
                continue
            metadata = {"name": name, "labels": {**dict.fromkeys(self._namespaces.get(name, {})), **labels}}
            body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            if name in self._namespaces:
                await self.bulk.merge(f"{_NAMESPACES}/{name}", body)
            else:
                await self.bulk.create_one(_NAMESPACES, body)
                account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
                await self.bulk.create_one(collection("ServiceAccount", name), msgspec.json.encode(account))
            self._namespaces[name] = labels
