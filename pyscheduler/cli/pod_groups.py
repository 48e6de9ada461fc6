"""Starts and stops the PodGroup controller: it runs while this replica leads and a plugin reads PodGroups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyscheduler import logs
from pyscheduler.api import ResourceKind

if TYPE_CHECKING:
    from pyscheduler.controllers.operator import PodGroupOperator

log = logs.get("podgroups")
POD_GROUPS: Final = ("scheduling.x-k8s.io", "podgroups")
VOLCANO: Final = "scheduling.volcano.sh"


class PodGroupControllerRunner:
    """Runs the controller while the kinds of `on_kinds_changed` include PodGroups, until the `async with` block ends.

    It updates the status of PodGroups, and manages Volcano's kinds if plugins read them. Clusters without gangs are
    spared the import of kopf, which is slow.
    """

    def __init__(self, kubeconfig: Path | None, server: str = "", schedulers: Sequence[str] = ()) -> None:
        """`kubeconfig` None means $KUBECONFIG or in-cluster credentials; `server` overrides its address.

        `schedulers` are the names of the profiles: Volcano's objects that name others are left alone.
        """
        self._kubeconfig, self._server, self._schedulers = kubeconfig, server, tuple(schedulers)
        self._enabled = False
        self._names: tuple[str, ...] = ()
        """Schedulers whose objects of Volcano's kinds are to be managed."""
        self._names_of_operator: tuple[str, ...] = ()
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
        kinds = list(kinds)
        self._enabled = any((kind.group, kind.plural) == POD_GROUPS for kind in kinds)
        self._names = self._schedulers if any(kind.group == VOLCANO for kind in kinds) else ()
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._enabled or self._names != self._names_of_operator:
                await self._stop()
            if self._enabled and self._operator is None:
                await self._start()

    async def _start(self) -> None:
        try:
            # In a thread, because the import would block scheduling.
            names = self._names
            operator = await asyncio.to_thread(_create_operator, self._kubeconfig, self._server, names)
            await operator.start()
        except Exception as problem:
            log.error("PodGroup controller failed to start, PodGroup statuses are not updated", problem)
        else:
            self._operator, self._names_of_operator = operator, names

    async def _stop(self) -> None:
        operator, self._operator = self._operator, None
        if operator is not None:
            await operator.stop()


def _create_operator(kubeconfig: Path | None, server: str, names: tuple[str, ...]) -> PodGroupOperator:
    from pyscheduler.controllers import operator

    return operator.PodGroupOperator(kubeconfig, server=server, volcano_schedulers=names)
