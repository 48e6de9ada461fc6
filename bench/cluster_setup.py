"""What every turn of a workload finds: namespaces, nodes, other objects, pods on their nodes.

It is made once for all turns of a workload: only what a turn took away is made again.
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
    """The objects of a batch that are no longer there, by number."""

    batch: Batch
    numbers: Sequence[int]


class ObjectDeleter(Protocol):
    """Deletes at once, by the paths of the API."""

    async def delete_each(self, paths: Iterable[str]) -> None:
        """Objects, which may be gone already."""

    async def delete_all(self, path: str) -> None:
        """A collection."""


@dataclass
class ClusterSetup:
    """The state that turns share. Nobody else may write to this API server."""

    bulk: BulkClient
    deleter: ObjectDeleter
    _nodes: list[Batch] = field(default_factory=list)
    _shared: list[Batch] = field(default_factory=list)
    _namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)

    async def prepare(self, program: Program) -> None:
        """Bring the cluster to where the program starts; what was made for another one is gone then."""
        for batch in [*reversed(self._shared), *self._nodes]:
            await self._remove(batch)
        self._nodes, self._shared = list(program.nodes), list(program.shared)  # even if not all of it can be made
        await self._make_namespaces(program.namespaces)
        for batch in [*program.nodes, *program.shared]:
            await self.bulk.create(batch)

    async def find_missing(self) -> list[MissingObjects]:
        """What the last turn took away: victims of preemption, deleted pods, objects that were changed."""
        found = []
        by_path: defaultdict[str, list[Batch]] = defaultdict(list)
        for batch in [*self._nodes, *self._shared]:
            by_path[batch.path].append(batch)
        for path, batches in by_path.items():
            if await self.bulk.count(path) < sum(batch.count for batch in batches):
                there = await self.bulk.names(path)
                found += [MissingObjects(batch, numbers) for batch in batches if (numbers := missing(batch, there))]
        return found

    async def restore(self, gone: Sequence[MissingObjects]) -> None:
        """Make again what is gone."""
        for each in gone:
            await self.bulk.create(each.batch, each.numbers)

    async def clear(self, pods: Sequence[Batch], namespaces: Sequence[str]) -> None:
        """Delete these pods, and all Events."""
        for batch in pods:
            await self._remove(batch)
        for namespace in namespaces:
            await self.deleter.delete_all(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")

    async def _remove(self, batch: Batch) -> None:
        await self.deleter.delete_each(f"{batch.path}/{name}" for name in batch.names())

    async def _make_namespaces(self, wanted: Mapping[str, Mapping[str, str]]) -> None:
        """With the labels they should have, and the service account without which no pod can be made in them."""
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
