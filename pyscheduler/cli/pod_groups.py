"""Starts and stops the PodGroup controller: it runs while this replica leads and a plugin reads PodGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyscheduler import logs
from pyscheduler.api import ResourceKind

if TYPE_CHECKING:
    from pyscheduler.controllers.operator import PodGroupOperator

log = logs.get("podgroups")
POD_GROUPS: Final = ("scheduling.x-k8s.io", "podgroups")


class PodGroupControllerRunner:
    """Runs the controller while the kinds of `on_kinds_changed` include PodGroups, until the `async with` block ends.

    It updates the status of PodGroups. Clusters without gangs are spared the import of kopf, which is slow.
    """

    def __init__(self, kubeconfig: Path | None, server: str = "") -> None:
        """`kubeconfig` None means in-cluster credentials; `server` overrides its address."""
        self._kubeconfig, self._server = kubeconfig, server
        self._enabled = False
        self._changed = asyncio.Event()
        self._operator: PodGroupOperator | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> PodGroupControllerRunner:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop()

    def on_kinds_changed(self, kinds: Iterable[ResourceKind]) -> None:
        """Handle a change of the kinds that plugins read; empty while this replica does not lead."""
        self._enabled = any((kind.group, kind.plural) == POD_GROUPS for kind in kinds)
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._enabled:
                await self._stop()
            elif self._operator is None:
                await self._start()

    async def _start(self) -> None:
        try:
            # In a thread, because the import would block scheduling.
            operator = await asyncio.to_thread(_create_operator, self._kubeconfig, self._server)
            await operator.start()
        except Exception as problem:
            log.error("PodGroup controller failed to start, PodGroup statuses are not updated", problem)
        else:
            self._operator = operator

    async def _stop(self) -> None:
        operator, self._operator = self._operator, None
        if operator is not None:
            await operator.stop()


def _create_operator(kubeconfig: Path | None, server: str) -> PodGroupOperator:
    from pyscheduler.controllers import operator

    return operator.PodGroupOperator(kubeconfig, server=server)
