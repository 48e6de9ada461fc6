"""A source that watches pods, and goes on where the last process stopped."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.store import PodSnapshotStore

RELIST_AFTER = 5
"""Failures in a row after which the resource_version is given up and everything is listed."""
SHORT_SECONDS = 1.0
_GONE = 410
_log = logging.getLogger(__name__)


class PodsWatchSnapshotSource:
    """Watches the pods with the labels from `resource_version` on and merges what it hears into the store.

    The resource_version is a resourceVersion; with None, or once the server has forgotten it (410 Gone), all pods are listed, the
    difference reconciled by the store, and the watch goes on from there. A watch that is cut goes on where it was.
    """

    def __init__(
        self, client: PodsApi, selector: str, store: PodSnapshotStore, resource_version: int | None, rng: random.Random
    ) -> None:
        self.resource_version = resource_version
        """Where the watch would go on."""
        self.listed = 0
        """How often it fell back to a list."""
        self._client, self._selector, self._store = client, selector, store
        self._backoff = ExponentialBackoff(rng, first=0.2)

    async def run(self) -> None:
        """Watch until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                resource_version = self.resource_version if self.resource_version is not None else await self._list()
                await self._watch(resource_version)
                pause = self._backoff.next_delay() if now() - began < SHORT_SECONDS else 0.0
            except ClusterProblem as problem:
                pause = self._recover(problem)
            except Exception as problem:
                _log.exception("following pods failed, relisting")
                pause, self.resource_version = self._recover(ClusterProblem(0, "Bug", repr(problem))), None
            if pause:
                await asyncio.sleep(pause)

    async def _list(self) -> int:
        self.listed += 1
        found = await self._client.list_pods(self._selector)
        self._store.merge(found)
        self.resource_version = found.resource_version or 0
        return self.resource_version

    async def _watch(self, resource_version: int) -> None:
        async with aclosing(self._client.watch_pods(self._selector, resource_version)) as watch:
            async for told in watch:
                self._store.merge(told)
                self.resource_version = told.resource_version or self.resource_version
                if told.pods or told.deleted:
                    self._backoff.reset()

    def _recover(self, problem: ClusterProblem) -> float:
        """Decide how to go on; returns the seconds to wait before."""
        pause = self._backoff.next_delay(problem.retry_after)
        if problem.status == _GONE or self._backoff.failures % RELIST_AFTER == 0:
            self.resource_version = None
        if problem.status == _GONE and self._backoff.failures == 1:
            _log.info("the place in the watch is too old; listing all pods")
            return 0.0
        _log.warning("the watch of pods ended; again in %.1f s: %s", pause, problem)
        return pause
