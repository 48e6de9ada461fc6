"""Hook before a pod's finalizer is removed: stores the logs of its containers, which are lost with the pod."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from pyscheduler.api import ApiError
from pyscheduler.backend.logs import ContainerLog, LogStore, PodLogs
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.settings import BackendSettings
from pyscheduler.backend.task import TaskRecord

_log = logging.getLogger(__name__)
_PART: Final = "logs"


class ReleaseHook:
    """Calls the log stores for each container of a pod that has run."""

    def __init__(
        self, logs: PodLogs, stores: Sequence[LogStore], settings: BackendSettings, problems: Problems
    ) -> None:
        self._logs, self._stores, self._settings, self._problems = logs, stores, settings, problems
        self._failures: Counter[str] = Counter()
        """Number of failed calls, by pod uid."""

    async def before_release(self, record: TaskRecord, pod: PodState) -> None:
        """Store the pod's logs. ApiError if that failed and is to be repeated before the pod is released."""
        was_released = self._settings.finalizer and not pod.has_finalizer
        if not self._stores or pod.exit_code is None or was_released:
            return
        try:
            async with asyncio.timeout(self._settings.hook_seconds):
                for container in pod.containers or ("",):
                    log = ContainerLog(self._logs, record, pod.name, pod.attempt, container)
                    for store in self._stores:
                        await store.store(log)
        except Exception as problem:  # a store is the owner's code
            self._handle_failure(pod, problem)
        else:
            self._failures.pop(pod.uid, None)
            self._problems.clear(_PART)

    def _handle_failure(self, pod: PodState, problem: Exception) -> None:
        self._failures[pod.uid] += 1
        text = f"the logs of pod {pod.name} cannot be stored: {str(problem) or type(problem).__name__}"
        self._problems.report(_PART, text)
        if self._failures[pod.uid] < self._settings.hook_attempts:
            raise ApiError(0, "LogStore", text)
        del self._failures[pod.uid]
        _log.error("%s; deleting the pod after %d attempts", text, self._settings.hook_attempts)
