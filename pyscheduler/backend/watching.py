"""A source that watches pods, and goes on where the last process stopped."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import aclosing

from pyscheduler.backend.client import ClusterProblem, PodsApi
from pyscheduler.backend.pauses import Pauses
from pyscheduler.backend.store import PodSnapshotStore

RELIST_AFTER = 5
"""Failures in a row after which the place is given up and everything is listed."""
SHORT_SECONDS = 1.0
_GONE = 410
_log = logging.getLogger(__name__)


class PodsWatchSnapshotSource:
    """Watches the pods with the labels from `place` on and merges what it hears into the store.

    The place is a resourceVersion; with None, or once the server has forgotten it (410 Gone), all pods are listed, the
    difference reconciled by the store, and the watch goes on from there. A watch that is cut goes on where it was.
    """

    def __init__(
        self, client: PodsApi, selector: str, store: PodSnapshotStore, place: int | None, chance: random.Random
    ) -> None:
        self.place = place
        """Where the watch would go on."""
        self.listed = 0
        """How often it fell back to a list."""
        self._client, self._selector, self._store = client, selector, store
        self._pauses = Pauses(chance, first=0.2)

    async def run(self) -> None:
        """Watch until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                place = self.place if self.place is not None else await self._list()
                await self._watch(place)
                pause = self._pauses.failed() if now() - began < SHORT_SECONDS else 0.0
            except ClusterProblem as problem:
                pause = self._recover(problem)
            except Exception as problem:
                _log.exception("following pods failed, relisting")
                pause, self.place = self._recover(ClusterProblem(0, "Bug", repr(problem))), None
            if pause:
                await asyncio.sleep(pause)

    async def _list(self) -> int:
        self.listed += 1
        found = await self._client.list_pods(self._selector)
        self._store.merge(found)
        self.place = found.place or 0
        return self.place

    async def _watch(self, place: int) -> None:
        async with aclosing(self._client.watch_pods(self._selector, place)) as watch:
            async for told in watch:
                self._store.merge(told)
                self.place = told.place or self.place
                if told.pods or told.gone:
                    self._pauses.well()

    def _recover(self, problem: ClusterProblem) -> float:
        """Decide how to go on; returns the seconds to wait before."""
        pause = self._pauses.failed(problem.retry_after)
        if problem.status == _GONE or self._pauses.failures % RELIST_AFTER == 0:
            self.place = None
        if problem.status == _GONE and self._pauses.failures == 1:
            _log.info("the place in the watch is too old; listing all pods")
            return 0.0
        _log.warning("the watch of pods ended; again in %.1f s: %s", pause, problem)
        return pause
