"""When the PodGroup controller runs beside the scheduler: while it leads, and some plugin reads PodGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyscheduler.api import ResourceKind
from pyscheduler.shell import logs

if TYPE_CHECKING:
    from pyscheduler.controllers.operator import PodGroupOperator

log = logs.get("podgroups")
POD_GROUPS: Final = ("scheduling.x-k8s.io", "podgroups")


class PodGroupControllerRunner:
    """Starts and stops the controller, as `on_kinds_changed` has it, until the `async with` block ends.

    Whoever runs gangs wants to see how they are doing. All others do without kopf, which is slow to import.
    """

    def __init__(self, kubeconfig: Path | None, server: str = "") -> None:
        """`kubeconfig` None means the credentials of the pod this runs in; `server` goes before its address."""
        self._kubeconfig, self._server = kubeconfig, server
        self._wanted = False
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
        """These are the kinds that plugins read while we lead."""
        self._wanted = any((kind.group, kind.plural) == POD_GROUPS for kind in kinds)
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._wanted:
                await self._stop()
            elif self._operator is None:
                await self._start()

    async def _start(self) -> None:
        try:
            operator = await asyncio.to_thread(
                _made, self._kubeconfig, self._server
            )  # attempts go on while it is imported
            await operator.start()
        except Exception as problem:
            log.error("PodGroup statuses are not kept", problem)
        else:
            self._operator = operator

    async def _stop(self) -> None:
        operator, self._operator = self._operator, None
        if operator is not None:
            await operator.stop()


def _made(kubeconfig: Path | None, server: str) -> PodGroupOperator:
    from pyscheduler.controllers import operator

    return operator.PodGroupOperator(kubeconfig, server=server)
