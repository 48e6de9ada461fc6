"""PodGroup controller as a thread of a scheduler, or alone.

In a scheduler it has a thread and an event loop of its own: kopf handles signals in the main thread and, at its end,
cancels all tasks of its loop; neither must affect the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from pathlib import Path
from typing import Self

import kopf

from pyscheduler.api import ResourceKind
from pyscheduler.clock import Clock, SystemClock
from pyscheduler.controllers.connection import connection_info
from pyscheduler.controllers.handlers import POD_GROUPS, GroupKey, registry, settings
from pyscheduler.controllers.podgroup_status import Member, podgroup_status
from pyscheduler.controllers.status_writer import Json, Key, ObjectStatusWriter, Patch
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.credentials import Credentials, load
from pyscheduler.kube.object_client import ObjectClient

STOP_SECONDS = 10.0
WRITES_PER_SECOND = 50.0
"""Limit of status updates; bursts may be twice as large."""

_log = logging.getLogger(__name__)


class PodGroupOperator:
    """PodGroup controller, to be started and stopped or used as a context manager.

    `kubeconfig` None means in-cluster credentials. ConnectionProblem at start if they cannot be loaded.
    """

    def __init__(self, kubeconfig: Path | None, clock: Clock | None = None, server: str = "") -> None:
        """Store the settings; `server` overrides the address in the kubeconfig."""
        self._kubeconfig, self._clock, self._server = kubeconfig, clock or SystemClock(), server
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Load the credentials and start the thread; returns at once."""
        await self._credentials()
        self._thread = threading.Thread(target=self._run_thread, name="podgroup-controller", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop, and wait up to 10 s for the thread."""
        if self._thread is None:
            return
        # From here on kopf logs cancelled requests, which are expected.
        kopf_log = logging.getLogger("kopf")
        level = kopf_log.level
        kopf_log.setLevel(logging.CRITICAL)
        self._stop.set()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        kopf_log.setLevel(level)

    async def run(self) -> None:
        """Run in this event loop until stopped, or until SIGINT or SIGTERM in the main thread."""
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # otherwise kopf logs each event of each pod
        connection = Connection(await self._credentials(), ConnectionOptions(qps=WRITES_PER_SECOND), self._clock)
        status_writer = ObjectStatusWriter(_patch_status(ObjectClient(connection)), self._clock.wall)
        writer_task = asyncio.create_task(status_writer.run(), name="status writer")

        def enqueue(key: GroupKey, group: Json | None, members: list[Member]) -> None:
            status_writer.enqueue(POD_GROUPS, key, group, lambda obj, now: podgroup_status(obj, members, now))

        try:
            await kopf.operator(
                registry=registry(self._login, enqueue),
                settings=settings(),
                clusterwide=True,
                stop_flag=self._stop,
                ready_flag=self._ready,
            )
        finally:
            writer_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await writer_task
            await connection.close()

    def _run_thread(self) -> None:
        # kopf warns that it handles no signals outside of the main thread, which is intended.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        try:
            asyncio.run(self.run())
        except Exception:
            _log.exception("PodGroup controller failed; PodGroup statuses are no longer updated")

    async def _login(self) -> kopf.ConnectionInfo:
        return await connection_info(await self._credentials())

    async def _credentials(self) -> Credentials:
        return await load(self._kubeconfig, self._clock, self._server)


def _patch_status(client: ObjectClient) -> Patch:
    async def patch(kind: ResourceKind, key: Key, change: Json) -> None:
        await client.patch(kind, key, change, subresource="status")

    return patch
