"""An election with its lease renewed in a thread of its own, so that nothing on the main loop can cost it.

The work is done on the main loop. It reads from the election's memory whether the lease is held, before each write:
one number, set by the thread. If the lease is lost while the main loop is blocked, writes are refused from that moment
on, and the work is cancelled as soon as the loop runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.shell.clock import Clock
from pyscheduler.shell.election import CHECK, Check, Election, election
from pyscheduler.shell.kube.connection import Connection
from pyscheduler.shell.leadership import Work
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.threads import LoopThread, run_on

__all__ = ["CHECK", "ThreadedElection", "elected"]


@asynccontextmanager
async def elected(
    configuration: KubeSchedulerConfiguration, calls: Connection, clock: Clock, metrics: Metrics, health: Check
) -> AsyncIterator[ThreadedElection]:
    """The election of a configuration, with a thread and a connection of its own."""

    async def made() -> Election:
        return election(configuration, calls, clock, metrics, health)

    async with LoopThread("lease") as thread:
        own = await thread.run(made)
        thread.resources.push_async_callback(own.close)
        yield ThreadedElection(own, thread)


class ThreadedElection:
    """An election on the loop of a thread, for work on another loop."""

    def __init__(self, election: Election, thread: LoopThread) -> None:
        """`election` must have been made in the thread."""
        self._election = election
        self._thread = thread

    @property
    def lost(self) -> bool:
        return self._election.lost

    def holds(self) -> bool:
        """Return True if the lease is held now; may be called in any thread."""
        return self._election.holds()

    def check(self) -> str | None:
        """The health check of the election."""
        return self._election.check()

    async def lead(self, work: Work) -> None:
        """Wait for the lease, do `work` on this loop while it is held, and release it. LeaseLost if it is lost.

        Cancelled, it cancels `work`, and the lease is renewed until that has ended.
        """
        here = asyncio.get_running_loop()
        await self._thread.run(partial(self._election.lead, partial(run_on, here, work)))
