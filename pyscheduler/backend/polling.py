"""Pod source that lists all pods periodically, so that changes missed by the watch are found."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from pyscheduler.api import ApiError
from pyscheduler.backend.backoff import ExponentialBackoff
from pyscheduler.backend.client import PodsApi
from pyscheduler.backend.errors import retry_after
from pyscheduler.backend.problems import Problems
from pyscheduler.backend.store import PodSnapshotStore

_log = logging.getLogger(__name__)


class PodsPollingSnapshotSource:
    """Lists the selected pods at once and then every `seconds`, and merges the list into the store.

    All pages are of one resourceVersion and of the newest state, so pods missing in the list do not exist. The list
    does not wait for the watch, which may still deliver what happened while no process ran.

    A list older than the resourceVersion that was known before it means that the server has lost its newest history
    (etcd was restored): the store restarts from it, and `relist` is called for the watch.
    """

    def __init__(
        self,
        client: PodsApi,
        selector: str,
        store: PodSnapshotStore,
        seconds: float,
        rng: random.Random,
        problems: Problems,
        relist: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._selector, self._store, self._seconds = client, selector, store, seconds
        self._problems = problems
        self._rng, self._relist = rng, relist
        self._backoff = ExponentialBackoff(rng)

    async def run(self) -> None:
        """List until cancelled."""
        while True:
            pause = await self._list()
            await asyncio.sleep(pause)

    async def _list(self) -> float:
        """List once; return the seconds until the next list."""
        known = self._store.resource_version
        try:
            snapshot = await self._client.list_pods(self._selector)
        except ApiError as problem:
            pause = self._backoff.next_delay(retry_after(problem))
            _log.warning("listing pods failed, retrying in %.1f s: %s", pause, problem)
            self._problems.report("pods", f"they cannot be listed: {problem}")
            return min(pause, self._seconds)
        listed = snapshot.resource_version
        if known is not None and listed is not None and listed < known:
            _log.warning("pods are listed at resourceVersion %d after %d: the server was restored", listed, known)
            self._store.restart(snapshot)
            self._relist()
        else:
            self._store.merge(snapshot)
        self._backoff.reset()
        self._problems.clear("pods")
        return self._seconds * self._rng.uniform(0.9, 1.1)
