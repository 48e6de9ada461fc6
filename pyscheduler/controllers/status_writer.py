"""Writer of PodGroup statuses: one update per burst of changes, and only if the status differs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from pyscheduler.api import ApiError
from pyscheduler.controllers.handlers import GroupKey
from pyscheduler.controllers.podgroup_status import Json, Member, podgroup_status
from pyscheduler.kube.errors import is_conflict, is_not_found

BATCH_SECONDS = 0.2
"""Delay in seconds in which changes of a group are batched."""
RETRY_SECONDS = 2.0

Write = Callable[[GroupKey, str, Json], Awaitable[Any]]
"""Writes fields of a group's status, given the resource version that they were computed from."""

_log = logging.getLogger(__name__)


class PodGroupStatusWriter:
    """Queue of groups with possible changes, and the task that writes their statuses."""

    def __init__(self, write: Write, clock: Callable[[], float]) -> None:
        self._write, self._clock = write, clock
        self._pending: dict[GroupKey, tuple[Json, list[Member]]] = {}
        self._wake = asyncio.Event()

    def enqueue(self, key: GroupKey, group: Json | None, members: list[Member]) -> None:
        """Queue a group for an update; only the latest state is kept. None removes it."""
        if group is None:
            self._pending.pop(key, None)  # the group does not exist or was deleted
            return
        self._pending[key] = (group, members)
        self._wake.set()

    async def run(self) -> None:
        """Write statuses until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            self._wake.clear()
            batch, self._pending = self._pending, {}
            failed = [
                key for key, (group, members) in batch.items() if not await self._write_if_changed(key, group, members)
            ]
            if failed:
                await asyncio.sleep(RETRY_SECONDS)
                for key in failed:
                    self._pending.setdefault(key, batch[key])
                self._wake.set()

    async def _write_if_changed(self, key: GroupKey, group: Json, members: list[Member]) -> bool:
        """Return True if the status is up to date or was written, False to retry."""
        status = podgroup_status(group, members, self._clock())
        present = group.get("status") or {}
        changed = {name: value for name, value in status.items() if present.get(name) != value}
        if not changed:
            return True
        try:
            await self._write(key, str(group["metadata"].get("resourceVersion") or ""), changed)
        except ApiError as problem:
            if is_conflict(problem):
                return True  # the scheduler writes conditions too; the event of that change queues the group again
            is_deleted = is_not_found(problem)
            level = logging.INFO if is_deleted else logging.WARNING
            _log.log(level, "PodGroup %s/%s: status update failed: %s", *key, problem)
            return is_deleted
        return True
