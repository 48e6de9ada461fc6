"""Writer of the statuses of objects of any kind: one update per burst of changes, and only of fields that differ.

The connection limits the writes per second. Only the newest state of each object is stored, so a burst never makes a
backlog that is longer than the number of objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pyscheduler import logs
from pyscheduler.api import ApiError, ResourceKind
from pyscheduler.kube.errors import is_conflict, is_not_found

BATCH_SECONDS = 0.2
"""Delay in seconds in which changes of an object are batched."""
RETRY_SECONDS = 2.0
_SHARED_FIELDS = {"conditions", "state"}
"""Fields of statuses that have other writers: users close queues, the scheduler writes conditions of PodGroups."""

Json = dict[str, Any]
Key = tuple[str, str]
"""Namespace ("" for a kind without one) and name."""


Compute = Callable[[Json, float], Json]
"""Returns the status of an object at a time in seconds since 1970."""
Patch = Callable[[ResourceKind, Key, Json], Awaitable[None]]
"""Merges a patch into an object with its status."""

_log = logs.get("controllers")


class _Update(NamedTuple):
    object: Json
    status: Compute


class ObjectStatusWriter:
    """Queue of objects with possible changes, and the task that writes their statuses."""

    def __init__(self, patch: Patch, clock: Callable[[], float]) -> None:
        self._patch, self._clock = patch, clock
        self._failures = logs.LimitedLog("controllers")
        self._pending: dict[tuple[ResourceKind, Key], _Update] = {}
        self._failed: dict[tuple[ResourceKind, Key], _Update] = {}
        """Updates to retry later, which a newer state of the object replaces."""
        self._wake = asyncio.Event()

    def enqueue(self, kind: ResourceKind, key: Key, obj: Json | None, status: Compute) -> None:
        """Queue an object for an update; only the latest state is kept. None removes it."""
        self._failed.pop((kind, key), None)
        if obj is None:
            self._pending.pop((kind, key), None)  # the object does not exist or was deleted
            return
        self._pending[kind, key] = _Update(obj, status)
        self._wake.set()

    async def run(self) -> None:
        """Write statuses until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(BATCH_SECONDS)
            self._wake.clear()
            batch, self._pending = self._pending, {}
            for each, update in batch.items():
                if not await self._write_if_changed(*each, update) and each not in self._pending:
                    self._failed[each] = update
                    asyncio.get_running_loop().call_later(RETRY_SECONDS, self._retry, each)

    def _retry(self, each: tuple[ResourceKind, Key]) -> None:
        update = self._failed.pop(each, None)
        if update is not None:
            self.enqueue(*each, update.object, update.status)

    async def _write_if_changed(self, kind: ResourceKind, key: Key, update: _Update) -> bool:
        """Return True if the status is up to date or was written, False to retry."""
        fields = {"kind": kind.kind, "object": "/".join(filter(None, key))}
        try:
            patch = status_patch(update.object, update.status(update.object, self._clock()))
            if patch is not None:
                await self._patch(kind, key, patch)
        except ApiError as problem:
            # After a conflict the watch delivers the newer object, which is queued again.
            if is_not_found(problem) or is_conflict(problem):
                _log.info("Dropped a status, the object has changed", v=4, err=str(problem), **fields)
                return True
            self._failures.warning("Failed to write a status, retrying", problem, **fields)
            return False
        except Exception as error:
            self._failures.crash("Failed to compute a status", error, **fields)
        return True


def status_patch(obj: Json, status: Json) -> Json | None:
    """Return the merge patch with the fields of the status that differ; None if there are none.

    A patch of a field that others write too fails if the object has changed, so that nothing of theirs is overwritten.
    """
    present = obj.get("status") or {}
    changed = _difference({name: present.get(name) for name in status}, status)
    if not changed:
        return None
    version = {"metadata": {"resourceVersion": obj["metadata"].get("resourceVersion", "")}}
    return (version if _SHARED_FIELDS & changed.keys() else {}) | {"status": changed}


def _difference(before: Json, after: Json) -> Json:
    """Return the merge patch from one mapping to the other: null removes what is missing."""
    patch: Json = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            if nested := _difference(old, value):
                patch[name] = nested
        elif old != value:
            patch[name] = value
    return patch
