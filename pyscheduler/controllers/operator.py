"""Runs the PodGroup controller: beside a scheduler in the same process, or alone.

Beside a scheduler it has a thread and an event loop of its own. kopf takes over signals in the main thread and, when it
ends, cancels the tasks that it finds in its loop; neither may enqueue the scheduler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import kopf
from kubernetes_asyncio import client

from pyscheduler.controllers.connection import connection_info, load
from pyscheduler.controllers.handlers import DEADLINES, GROUP, PLURAL, VERSION, GroupKey, registry, settings
from pyscheduler.controllers.podgroup_status import Json
from pyscheduler.controllers.status_writer import StatusWriter, Write

STOP_SECONDS = 10.0

_log = logging.getLogger(__name__)


class PodGroupOperator:
    """Keeps PodGroup statuses. Start and stop it, or use it as a context manager.

    `kubeconfig` None means the credentials of the pod this runs in. ControllerProblem at start if they are no good.
    """

    def __init__(self, kubeconfig: Path | None, clock: Callable[[], float] = time.time, server: str = "") -> None:
        """`server` goes before the address in the kubeconfig."""
        self._kubeconfig, self._clock, self._server = kubeconfig, clock, server
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Begin in a thread of its own; returns at once."""
        await load(self._kubeconfig, self._server)
        self._thread = threading.Thread(target=self._run_thread, name="podgroup-controller", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End, and wait for the end (10 s at most)."""
        if self._thread is None:
            return
        # What kopf's calls say from here on is that they were cut off, which is what was asked for.
        kopf_log = logging.getLogger("kopf")
        level = kopf_log.level
        kopf_log.setLevel(logging.CRITICAL)
        self._stop.set()
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        kopf_log.setLevel(level)

    async def run(self) -> None:
        """Run in this event loop until stopped, or until SIGINT or SIGTERM in the main thread."""
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # else a line for each event of each pod
        found = await load(self._kubeconfig, self._server)
        async with client.ApiClient(found) as api:
            keeper = StatusWriter(_writer(api), self._clock)
            writing = asyncio.create_task(keeper.run(), name="podgroup status writer")
            try:
                await kopf.operator(
                    registry=registry(self._login, keeper.enqueue),
                    settings=settings(),
                    clusterwide=True,
                    stop_flag=self._stop,
                    ready_flag=self._ready,
                )
            finally:
                writing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await writing

    def _run_thread(self) -> None:
        # It warns that it leaves signals alone outside of the main thread, which is just why it is not there.
        logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
        try:
            asyncio.run(self.run())
        except Exception:
            _log.exception("the PodGroup controller ended; PodGroup statuses are no longer kept")

    async def _login(self) -> kopf.ConnectionInfo:
        return await connection_info(await load(self._kubeconfig, self._server))


def _writer(api: client.ApiClient) -> Write:
    objects = client.CustomObjectsApi(api)

    async def write(key: GroupKey, status: Json) -> None:
        namespace, name = key
        await objects.patch_namespaced_custom_object_status(
            GROUP,
            VERSION,
            namespace,
            PLURAL,
            name,
            {"status": status},
            _content_type="application/merge-patch+json",  # type: ignore[call-arg]  # missing in the stub
            _request_timeout=DEADLINES.answer,
        )

    return write
