"""Pod source that watches pods, from the resourceVersion where the last process stopped."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.store import PodSnapshotStore

RELIST_AFTER = 5
"""Consecutive failures after which the watch relists."""
SHORT_SECONDS = 1.0
_GONE = 410
_log = logging.getLogger(__name__)


class PodsWatchSnapshotSource:
    """Watches the selected pods from `resource_version` on and merges the changes into the store.

    With None, or after 410 Gone, it lists all pods and watches from that list on. A watch that breaks is resumed at
    its last resourceVersion.
    """

    def __init__(
        self, client: PodsApi, selector: str, store: PodSnapshotStore, resource_version: int | None, rng: random.Random
    ) -> None:
        self.resource_version = resource_version
        """resourceVersion to resume from; None: list first."""
        self.listed = 0
        """Number of lists so far."""
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
                _log.exception("watching pods failed, relisting")
                pause, self.resource_version = self._recover(ClusterProblem(0, "Bug", repr(problem))), None
            if pause:
                await asyncio.sleep(pause)

    async def _list(self) -> int:
        self.listed += 1
        snapshot = await self._client.list_pods(self._selector)
        self._store.merge(snapshot)
        self.resource_version = snapshot.resource_version or 0
        return self.resource_version

    async def _watch(self, resource_version: int) -> None:
        async with aclosing(self._client.watch_pods(self._selector, resource_version)) as watch:
            async for snapshot in watch:
                self._store.merge(snapshot)
                self.resource_version = snapshot.resource_version or self.resource_version
                if snapshot.pods or snapshot.deleted:
                    self._backoff.reset()

    def _recover(self, problem: ClusterProblem) -> float:
        """Decide between resuming and relisting; return the seconds to wait before."""
        pause = self._backoff.next_delay(problem.retry_after)
        if problem.status == _GONE or self._backoff.failures % RELIST_AFTER == 0:
            self.resource_version = None
        if problem.status == _GONE and self._backoff.failures == 1:
            _log.info("watch of pods: resourceVersion is too old (410 Gone), relisting")
            return 0.0
        _log.warning("watch of pods failed, retrying in %.1f s: %s", pause, problem)
        return pause
