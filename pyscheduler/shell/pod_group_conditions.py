"""Write the condition of pod groups with lower priority than bindings.

The condition is merged into those of the object as it is: other controllers write conditions of their own types. Only
the newest condition of a group matters.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

from pyscheduler import logs
from pyscheduler.api import ApiError, ApiWriter
from pyscheduler.clock import Clock, rfc3339
from pyscheduler.core.commands import PatchPodGroup
from pyscheduler.kube import paths
from pyscheduler.kube.conditions import merge_condition
from pyscheduler.truncation import MAX_MESSAGE, truncated

_TRIES: Final = 3
"""Number of reads and writes before a condition is given up: other writers may change the object in between."""
_CONFLICT, _NOT_FOUND = 409, 404
Json = dict[str, Any]


class PodGroupConditionWriter:
    """Executes PatchPodGroup commands without blocking the caller; failures are logged."""

    def __init__(self, api: ApiWriter, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._log = logs.LimitedLog("pod-groups", clock.now)
        self._waiting: OrderedDict[tuple[str, ...], PatchPodGroup] = OrderedDict()
        self._due = asyncio.Event()

    def add(self, command: PatchPodGroup) -> None:
        """Queue a condition, instead of an earlier one of the group that is not written yet."""
        self._waiting[command.kind.group, command.namespace, command.name, command.type] = command
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._due.wait()
            if not self._waiting:
                self._due.clear()
                continue
            _, command = self._waiting.popitem(last=False)
            try:
                await self._write(command)
            except ApiError as problem:
                if problem.status != _NOT_FOUND:
                    group = f"{command.namespace}/{command.name}"
                    self._log.warning("Failed to write the condition of a pod group", problem, group=group)

    async def _write(self, command: PatchPodGroup) -> None:
        path = paths.object_path(command.kind, command.namespace, command.name)
        for tries in range(1, _TRIES + 1):
            found = await self._api.get(path)
            if command.uid and found["metadata"].get("uid") != command.uid:
                return  # another object with the same name
            patch = with_condition(found, command, rfc3339(self._clock.wall()))
            if patch is None:
                return
            try:
                await self._merge(path, patch)
                return
            except ApiError as problem:
                if problem.status != _CONFLICT or tries == _TRIES:
                    raise

    async def _merge(self, path: str, patch: Json) -> None:
        try:
            await self._api.merge(f"{path}/status", patch)
        except ApiError as problem:
            if problem.status != _NOT_FOUND:
                raise
            await self._api.merge(path, patch)  # Volcano's PodGroup has no status subresource


def with_condition(obj: Json, command: PatchPodGroup, now: str) -> Json | None:
    """Return the merge patch that sets the condition; None if the object has it already.

    It fails with a conflict if the object has changed since it was read, since the list of conditions is replaced.
    """
    before: list[Json] = (obj.get("status") or {}).get("conditions") or []
    condition = {
        "type": command.type,
        "status": command.status,
        "reason": command.reason,
        "message": truncated(command.message, MAX_MESSAGE),
    }
    present: Json = next((each for each in before if each.get("type") == command.type), {})
    if condition.items() <= present.items():
        return None
    generation = obj["metadata"].get("generation")
    observed = {"observedGeneration": generation} if generation else {}
    return {
        "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
        "status": {"conditions": merge_condition(before, condition | observed, now)},
    }
