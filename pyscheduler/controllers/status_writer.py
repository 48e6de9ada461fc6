"""Writes the statuses of PodGroups: once per burst of changes, and only where something is new."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException

from pyscheduler.controllers.handlers import GroupKey
from pyscheduler.controllers.podgroup_status import Json, Member, podgroup_status

BATCH_SECONDS = 0.2
"""How long changes of one group are gathered before its status is written."""
RETRY_SECONDS = 2.0

Write = Callable[[GroupKey, Json], Awaitable[Any]]

_log = logging.getLogger(__name__)


class StatusWriter:
    """Groups that may need a new status, and the one task that writes it."""

    def __init__(self, write: Write, clock: Callable[[], float]) -> None:
        self._write, self._clock = write, clock
        self._pending: dict[GroupKey, tuple[Json, list[Member]]] = {}
        self._wake = asyncio.Event()

    def enqueue(self, key: GroupKey, group: Json | None, members: list[Member]) -> None:
        """The group or its members may have changed; the latest word counts."""
        if group is None:
            self._pending.pop(key, None)  # no such group (any more): nothing to write to
            return
        self._pending[key] = (group, members)
        self._wake.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            self._wake.clear()
            touched, self._pending = self._pending, {}
            failed = [
                key
                for key, (group, members) in touched.items()
                if not await self._write_if_changed(key, group, members)
            ]
            if failed:
                await asyncio.sleep(RETRY_SECONDS)
                for key in failed:
                    self._pending.setdefault(key, touched[key])
                self._wake.set()

    async def _write_if_changed(self, key: GroupKey, group: Json, members: list[Member]) -> bool:
        """Whether there is nothing left to do about the group."""
        status = podgroup_status(group, members, self._clock())
        present = group.get("status") or {}
        changed = {name: value for name, value in status.items() if present.get(name) != value}
        if not changed:
            return True
        try:
            await self._write(key, changed)
        except ApiException as problem:
            _log.log(
                logging.INFO if problem.status == 404 else logging.WARNING,
                "PodGroup %s/%s: its status was not written: %s %s",
                *key,
                problem.status,
                problem.reason,
            )
            return bool(problem.status == 404)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            _log.warning("PodGroup %s/%s: its status was not written: %s", *key, problem)
            return False
        return True
