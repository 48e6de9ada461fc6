"""A source that lists all pods now and then: what finds out whatever a watch has missed, and what was there before."""

from __future__ import annotations

import asyncio
import logging
import random

from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.store import PodSnapshotStore

_log = logging.getLogger(__name__)


class PodsPollingSnapshotSource:
    """Lists the pods with the labels every `seconds`, the first time at once, and merges what it finds into the store.

    The list is in pages of one place and asks for the newest state, so pods that it does not have do not exist.
    """

    def __init__(
        self, client: PodsApi, selector: str, store: PodSnapshotStore, seconds: float, rng: random.Random
    ) -> None:
        self._client, self._selector, self._store, self._seconds = client, selector, store, seconds
        self._rng = rng
        self._backoff = ExponentialBackoff(rng)
        self._wanted = asyncio.Event()

    def poll_now(self) -> None:
        """List now rather than when it is time."""
        self._wanted.set()

    async def run(self) -> None:
        """List until cancelled."""
        while True:
            self._wanted.clear()
            pause = await self._list()
            try:
                async with asyncio.timeout(pause):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _list(self) -> float:
        """List once; returns how long to wait before the next time."""
        try:
            self._store.merge(await self._client.list_pods(self._selector))
        except ClusterProblem as problem:
            pause = self._backoff.next_delay(problem.retry_after)
            _log.warning("pods could not be listed; again in %.1f s: %s", pause, problem)
            return min(pause, self._seconds)
        self._backoff.reset()
        return self._seconds * self._rng.uniform(0.9, 1.1)
