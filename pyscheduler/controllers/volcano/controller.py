"""Controllers of Volcano's kinds: their store, the watches, and the task that writes Jobs.

Objects are watched by reflectors: an event of a pod takes 0.3 ms in a reflector and 1.5 ms in kopf, of the scheduler's
process, and a watch that is forbidden ends kopf's operator. Pods are watched once an object of Volcano's kinds exists,
so clusters without such objects pay nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Any, Final

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.clock import Clock
from pyscheduler.controllers.key_queue import KeyQueue
from pyscheduler.controllers.status_writer import Key, ObjectStatusWriter
from pyscheduler.controllers.volcano.field_managers import field_manager, last_other_write
from pyscheduler.controllers.volcano.job_controller import VolcanoJobController
from pyscheduler.controllers.volcano.pod_group_status import pod_group_status
from pyscheduler.controllers.volcano.pods import WatchedPod, record
from pyscheduler.controllers.volcano.queue_status import queue_status
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, QUEUES, VolcanoStore, queue_of
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS
from pyscheduler.kube.reflector import Change, Deleted, Progress, Reflector, Upsert, Watched

TAKEOVER_SECONDS: Final = 600.0
"""Time without a write after which another writer of a Queue's status counts as gone."""

Json = dict[str, Any]
_READ_FOR_STATUS: Final = (POD_GROUPS, QUEUES)
"""Kinds that must be readable before a status is written."""
_READ_FOR_JOBS: Final = (POD_GROUPS, QUEUES, JOBS)


class VolcanoControllers:
    """Writes statuses of PodGroups and Queues, and executes Jobs, of the given schedulers."""

    def __init__(
        self,
        schedulers: Collection[str],
        writer: ObjectStatusWriter,
        connection: Connection,
        clock: Clock,
    ) -> None:
        """`writer` is for PodGroups and Queues, `connection` for the watch of pods and writes of Jobs."""
        self.store = VolcanoStore(schedulers, self._enqueue)
        self._writer, self._clock = writer, clock
        self._schedulers, self._manager = schedulers, field_manager(schedulers)
        self._delayed: set[Key] = set()
        """Queues that are enqueued later, once another writer of their status counts as gone."""
        self._jobs: KeyQueue[Key] = KeyQueue("Volcano Job", self._process_job)
        self._job_controller = VolcanoJobController(
            ObjectClient(connection), self.store, clock.wall, self._jobs.add_after
        )
        self._has_objects = asyncio.Event()
        decoder = ObjectDecoder(PODS.plural, WatchedPod, Refusals())
        self._pods = Reflector(
            connection, Watched(PODS), decoder, self._handle_pod, clock, random.Random(), self._handle_progress
        )
        self._objects = {
            kind: self._reflector(kind, connection, clock, store)
            for kind, store in (
                (POD_GROUPS, self.store.set_group),
                (QUEUES, self.store.set_queue),
                (JOBS, self.store.set_job),
            )
        }
        self._readable: set[ResourceKind] = set()
        """Kinds that were listed, or that the server does not have. Others are forbidden, maybe until RBAC changes."""

    def _reflector(
        self, kind: ResourceKind, connection: Connection, clock: Clock, store: Callable[[Key, Json | None], None]
    ) -> Reflector[Json]:
        def handle(change: Change[Json]) -> None:
            if isinstance(change, Deleted):
                store((change.namespace, change.name), None)
                return
            self._has_objects.set()
            meta = change.object["metadata"]
            store((meta.get("namespace", ""), meta["name"]), change.object)

        decoder = ObjectDecoder(kind.plural, Json, Refusals(), managed_fields=kind is QUEUES)
        return Reflector(connection, Watched(kind), decoder, handle, clock, random.Random(), self._handle_progress)

    async def run(self) -> None:
        """Watch the objects, and execute Jobs, until cancelled. Nothing is written before all were listed."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._objects.values():
                tasks.create_task(reflector.run())
            await self._has_objects.wait()
            tasks.create_task(self._pods.run())
            for synced in (self._pods.synced, *(each.synced for each in self._objects.values())):
                await synced.wait()
            self._enqueue_all()
            await self._jobs.run()

    def _handle_progress(self, progress: Progress) -> None:
        if progress.is_list:
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        store = self.store
        for kind, objects in ((POD_GROUPS, store.groups), (QUEUES, store.queues), (JOBS, store.jobs)):
            for key in objects:
                self._enqueue(kind, key)

    def _may_write(self, kind: ResourceKind) -> bool:
        """Return True if all that the writes for a kind depend on is known."""
        needed = _READ_FOR_JOBS if kind is JOBS else _READ_FOR_STATUS
        return self._pods.synced.is_set() and all(map(self._is_readable, needed))

    def _is_readable(self, kind: ResourceKind) -> bool:
        reflector = self._objects[kind]
        if kind not in self._readable and reflector.synced.is_set() and not reflector.problem:
            self._readable.add(kind)
        return kind in self._readable

    def _handle_pod(self, change: Change[WatchedPod]) -> None:
        if isinstance(change, Upsert):
            meta = change.object.metadata
            self.store.set_pod((meta.namespace, meta.name), record(change.object))
        else:
            self.store.set_pod((change.namespace, change.name), None)

    def _enqueue(self, kind: ResourceKind, key: Key) -> None:
        if not self._may_write(kind):
            return
        if kind is JOBS:
            self._jobs.add(key)
        elif kind is POD_GROUPS:
            group = self.store.groups[key] if self.store.has_our_group(key) else None
            self._writer.enqueue(kind, key, group, lambda obj, _: self._group_status(key, obj))
        else:
            self._writer.enqueue(kind, key, self.store.queues.get(key), lambda obj, _: self._queue_status(key, obj))

    def _group_status(self, key: Key, group: Json) -> Json:
        is_open = self.store.is_queue_open(queue_of(group))
        return pod_group_status(group, self.store.pods_of_group(key), queue_is_open=is_open)

    def _queue_status(self, key: Key, queue: Json) -> Json:
        """Return the fields to write. All groups of the queue are looked at, so this is not done for each event."""
        phases, allocated = list(self.store.phases(key[1])), self.store.allocated(key[1])
        other = last_other_write(queue, self._manager)
        if other is not None:
            remaining = other.at + TAKEOVER_SECONDS - self._clock.wall()
            if remaining > 0:
                self._enqueue_later(key, remaining)
                return {}
            # The other scheduler may still run, with a usage that does not change.
            if not (phases or allocated or other.is_of_one_of(self._schedulers)):
                return {}
        return queue_status(queue, phases, allocated)

    def _enqueue_later(self, queue: Key, seconds: float) -> None:
        def enqueue() -> None:
            self._delayed.discard(queue)
            self._enqueue(QUEUES, queue)

        if queue not in self._delayed:
            self._delayed.add(queue)
            asyncio.get_running_loop().call_later(seconds, enqueue)

    async def _process_job(self, key: Key) -> None:
        await self._job_controller.process(key)


async def patch_status(client: ObjectClient, manager: str, kind: ResourceKind, key: Key, change: Json) -> None:
    """Merge a change into a status; into the object if its kind has no status subresource, as Volcano's PodGroup."""
    try:
        await client.patch(kind, key, change, subresource="status", field_manager=manager)
    except ApiError as problem:
        if kind != POD_GROUPS or not is_not_found(problem):
            raise
        await client.patch(kind, key, change, field_manager=manager)
