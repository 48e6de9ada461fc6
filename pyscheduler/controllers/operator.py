"""PodGroup controller as a thread of a scheduler, or alone.

In a scheduler it has a thread and an event loop of its own: kopf handles signals in the main thread and, at its end,
cancels all tasks of its loop; neither must affect the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Self

import kopf

from pyscheduler.clock import Clock, SystemClock
from pyscheduler.controllers.connection import connection_info
from pyscheduler.controllers.handlers import POD_GROUPS, GroupKey, registry, settings
from pyscheduler.controllers.podgroup_status import Member, podgroup_status
from pyscheduler.controllers.status_writer import Json, ObjectStatusWriter
from pyscheduler.controllers.volcano.controller import VolcanoControllers, patch_status
from pyscheduler.controllers.volcano.field_managers import field_manager
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.credentials import Credentials, load
from pyscheduler.kube.object_client import ObjectClient

STOP_SECONDS = 10.0
STATUS_LIMIT = ConnectionOptions(qps=50, burst=100)
"""Limit of status updates."""
JOB_LIMIT = ConnectionOptions(qps=200, burst=200)
"""Limit of calls for Volcano Jobs, mostly creations of pods."""

_log = logging.getLogger(__name__)


class PodGroupOperator:
    """PodGroup controller, to be started and stopped or used as a context manager.

    `kubeconfig` None means $KUBECONFIG or in-cluster credentials. ConnectionProblem at start if they cannot be loaded.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        clock: Clock | None = None,
        server: str = "",
        volcano_schedulers: Collection[str] = (),
    ) -> None:
        """Store the settings.

        `server` overrides the address in the kubeconfig. Objects of Volcano's kinds are managed if they belong to
        `volcano_schedulers`.
        """
        self._kubeconfig, self._clock, self._server = kubeconfig, clock or SystemClock(), server
        self._volcano_schedulers = volcano_schedulers
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
        credentials = await self._credentials()
        statuses, jobs = (Connection(credentials, options, self._clock) for options in (STATUS_LIMIT, JOB_LIMIT))
        patch = partial(patch_status, ObjectClient(statuses), field_manager(self._volcano_schedulers))
        writer = ObjectStatusWriter(patch, self._clock.wall)

        def enqueue(key: GroupKey, group: Json | None, members: list[Member]) -> None:
            writer.enqueue(POD_GROUPS, key, group, lambda obj, now: podgroup_status(obj, members, now))

        # At its end, kopf waits 5 s for tasks that were created since its start.
        handlers, tasks = registry(self._login, enqueue), [asyncio.create_task(writer.run(), name="status writer")]
        if self._volcano_schedulers:
            volcano = VolcanoControllers(self._volcano_schedulers, writer, jobs, self._clock)
            tasks.append(asyncio.create_task(volcano.run(), name="volcano controllers"))
        for task in tasks:
            task.add_done_callback(_log_failure)
        try:
            await kopf.operator(
                registry=handlers,
                settings=settings(),
                clusterwide=True,
                stop_flag=self._stop,
                ready_flag=self._ready,
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await statuses.close()
            await jobs.close()

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


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (problem := task.exception()) is not None:
        _log.error("Task failed: %s; statuses are no longer updated", task.get_name(), exc_info=problem)
