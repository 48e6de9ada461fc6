"""Leader election in its own thread, so that a blocked main loop cannot delay lease renewals.

The work runs on the main loop, which checks before each write that the lease is held: it reads a number that the thread
sets. If the lease is lost while the main loop is blocked, writes are rejected from that moment, and the work is
cancelled as soon as the loop runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pyscheduler.clock import Clock
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.election import CHECK, Check, Election, election
from pyscheduler.shell.leadership import Work
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.threads import LoopThread, run_on

__all__ = ["CHECK", "ThreadedElection", "elected"]


@asynccontextmanager
async def elected(
    configuration: KubeSchedulerConfiguration, calls: Connection, clock: Clock, metrics: Metrics, health: Check
) -> AsyncIterator[ThreadedElection]:
    """Return the election of a configuration, with its own thread and connection."""

    async def create() -> Election:
        return election(configuration, calls, clock, metrics, health)

    async with LoopThread("lease") as thread:
        own = await thread.run(create)
        thread.resources.push_async_callback(own.close)
        yield ThreadedElection(own, thread)


class ThreadedElection:
    """Election on the loop of a thread, for work on another loop."""

    def __init__(self, election: Election, thread: LoopThread) -> None:
        """`election` must have been created in the thread."""
        self._election = election
        self._thread = thread

    @property
    def lost(self) -> bool:
        return self._election.lost

    def holds(self) -> bool:
        """Return True if the lease is held now; may be called in any thread."""
        return self._election.holds()

    def check(self) -> str | None:
        """Return the problem that the election's health check found, None if healthy."""
        return self._election.check()

    async def lead(self, work: Work) -> None:
        """Wait for the lease, run `work` on this loop while it is held, then release it. LeaseLost if it is lost.

        When cancelled, it cancels `work` and renews the lease until `work` has ended.
        """
        here = asyncio.get_running_loop()
        await self._thread.run(partial(self._election.lead, partial(run_on, here, work)))
