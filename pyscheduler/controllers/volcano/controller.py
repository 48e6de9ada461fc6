"""Controllers of Volcano's kinds: their store, the watch of pods, and the tasks that write.

kopf watches PodGroups, Queues and Jobs. Pods are watched by a reflector: members are named by annotations, which the
server cannot select, and an event of a pod takes 0.3 ms in a reflector and 1.5 ms in kopf, of the scheduler's process.
They are watched once an object of Volcano's kinds exists, so clusters without such objects pay nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from typing import Any

import kopf

from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.clock import Clock
from pyscheduler.controllers.key_queue import KeyQueue
from pyscheduler.controllers.status_writer import Key, ObjectStatusWriter
from pyscheduler.controllers.volcano.job_controller import VolcanoJobController
from pyscheduler.controllers.volcano.pod_group_status import pod_group_status
from pyscheduler.controllers.volcano.pods import WatchedPod, record
from pyscheduler.controllers.volcano.queue_status import queue_status
from pyscheduler.controllers.volcano.store import JOBS, POD_GROUPS, QUEUES, VolcanoStore, queue_of
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.decode import ObjectDecoder, Refusals
from pyscheduler.kube.errors import is_not_found
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.paths import PODS, collection
from pyscheduler.kube.reflector import Change, Reflector, Upsert, Watched

Json = dict[str, Any]
_FORBIDDEN = 403
_log = logging.getLogger(__name__)


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
        self._writer = writer
        self._jobs: KeyQueue[Key] = KeyQueue("Volcano Job", self._process_job)
        self._job_controller = VolcanoJobController(
            ObjectClient(connection), self.store, clock.wall, self._jobs.add_after
        )
        self._has_objects = asyncio.Event()
        self._connection = connection
        decoder = ObjectDecoder(PODS.plural, WatchedPod, Refusals())
        self._pods = Reflector(connection, Watched(PODS), decoder, self._handle_pod, clock, random.Random())

    async def watch_pods(self) -> None:
        """Watch the pods until cancelled, once there are objects of Volcano's kinds."""
        await self._has_objects.wait()
        await self._pods.run()

    async def run(self) -> None:
        """Execute Jobs until cancelled. Nothing is written before the pods were listed."""
        await self._pods.synced.wait()
        store = self.store
        for kind, objects in ((POD_GROUPS, store.groups), (QUEUES, store.queues), (JOBS, store.jobs)):
            for key in objects:
                self._enqueue(kind, key)
        await self._jobs.run()

    async def register(self, registry: kopf.OperatorRegistry) -> None:
        """Add the handlers of Volcano's kinds that RBAC allows: a watch that is forbidden ends kopf's operator.

        kopf calls the indexes for all objects before it calls the first handler, so no incomplete queue is counted.
        """
        if await self._is_forbidden(POD_GROUPS) or await self._is_forbidden(QUEUES):
            return
        _register(registry, POD_GROUPS, self._has_objects, self.store.set_group)
        _register(registry, QUEUES, self._has_objects, self.store.set_queue)
        if not await self._is_forbidden(JOBS):
            _register(registry, JOBS, self._has_objects, self.store.set_job)

    async def _is_forbidden(self, kind: ResourceKind) -> bool:
        """Return True if objects of a kind cannot be listed. A kind that does not exist may be installed later."""
        try:
            await self._connection.request("GET", f"{collection(kind)}?limit=1")
        except ApiError as problem:
            if problem.status != _FORBIDDEN:
                return False
            _log.warning("%s of %s are not managed until a restart: %s", kind.plural, kind.group, problem)
            return True
        return False

    def _handle_pod(self, change: Change[WatchedPod]) -> None:
        if isinstance(change, Upsert):
            meta = change.object.metadata
            self.store.set_pod((meta.namespace, meta.name), record(change.object))
        else:
            self.store.set_pod((change.namespace, change.name), None)

    def _enqueue(self, kind: ResourceKind, key: Key) -> None:
        if not self._pods.synced.is_set():
            return
        if kind is JOBS:
            self._jobs.add(key)
        elif kind is POD_GROUPS:
            group = self.store.groups[key] if self.store.has_our_group(key) else None
            self._writer.enqueue(kind, key, group, lambda obj, _: self._group_status(key, obj))
        else:
            queue = self.store.queues[key] if self.store.has_our_queue(key) else None
            self._writer.enqueue(kind, key, queue, lambda obj, _: self._queue_status(key[1], obj))

    def _group_status(self, key: Key, group: Json) -> Json:
        is_open = self.store.is_queue_open(queue_of(group))
        return pod_group_status(group, self.store.pods_of_group(key), queue_is_open=is_open)

    def _queue_status(self, name: str, queue: Json) -> Json:
        return queue_status(queue, self.store.phases(name), self.store.allocated(name))

    async def _process_job(self, key: Key) -> None:
        await self._job_controller.process(key)


async def patch_status(client: ObjectClient, kind: ResourceKind, key: Key, change: Json) -> None:
    """Merge a change into a status; into the object if its kind has no status subresource, as Volcano's PodGroup."""
    try:
        await client.patch(kind, key, change, subresource="status")
    except ApiError as problem:
        if kind != POD_GROUPS or not is_not_found(problem):
            raise
        await client.patch(kind, key, change)


def _register(
    registry: kopf.OperatorRegistry,
    kind: ResourceKind,
    has_objects: asyncio.Event,
    store: Callable[[Key, Json | None], None],
) -> None:
    watched = (kind.group, kind.version, kind.plural)
    name = f"volcano-{kind.plural}"

    async def read(namespace: str | None, name: str, body: kopf.Body, **_: Any) -> None:
        has_objects.set()
        store((namespace or "", name), dict(body))

    async def changed(event: kopf.RawEvent, namespace: str | None, name: str, **_: Any) -> None:
        if event["type"] == "DELETED":
            store((namespace or "", name), None)

    kopf.index(*watched, id=f"{name}-index", registry=registry)(read)
    kopf.on.event(*watched, id=name, registry=registry)(changed)
