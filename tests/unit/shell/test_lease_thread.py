"""Leader election in a thread, on virtual time: its clock advances while the main loop is blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from pyscheduler.core.leader_election import LeaderElector
from pyscheduler.shell.election import Election
from pyscheduler.shell.leadership import LeaseLost
from pyscheduler.shell.lease_thread import ThreadedElection
from pyscheduler.shell.threads import LoopThread
from tests.unit.kube.virtual import SteppedClock

from .test_election import TERMS, LeaseServer, Lock, never_ending, settle


@dataclass
class ThreadedReplica:
    """A replica with an election thread, and that thread's clock."""

    election: ThreadedElection
    clock: SteppedClock
    server: LeaseServer
    loop: asyncio.AbstractEventLoop
    """The thread's event loop."""
    problem: str | None = None
    """Health problem of the main loop, None if it is healthy."""
    history: list[str] = field(default_factory=list)
    working: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the cancelled work may end."""

    async def work(self) -> None:
        self.history.append("works")
        self.working.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.history.append("stops leading" if self.election.holds() else "stops without the lease")
            self.stopping.set()
            if self.election.holds():
                await self.may_end.wait()
                self.history.append("drained")

    def block(self, seconds: float) -> None:
        """Block the main loop for `seconds` of the thread's clock."""

        async def advance() -> None:
            for _ in range(round(seconds * 10)):
                await self.clock.advance(0.1)
                await settle()

        asyncio.run_coroutine_threadsafe(advance(), self.loop).result(timeout=30)


@asynccontextmanager
async def leading() -> AsyncIterator[tuple[ThreadedReplica, asyncio.Task[None]]]:
    """Yield a leading replica and its task."""
    clock, server = SteppedClock(), LeaseServer()

    async def create() -> Election:
        return Election(Lock(server), LeaderElector("a", TERMS), clock, health=lambda: replica.problem)

    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async with LoopThread("lease") as thread:
        own = await thread.run(loop)
        replica = ThreadedReplica(ThreadedElection(await thread.run(create), thread), clock, server, own)
        task = asyncio.create_task(replica.election.lead(replica.work))
        async with asyncio.timeout(10):
            await replica.working.wait()
        yield replica, task
        replica.may_end.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_lease_is_renewed_while_the_main_loop_is_blocked() -> None:
    async with leading() as (replica, task):
        before = len(replica.server.writes)
        replica.block(100.0)
        assert len(replica.server.writes) >= before + 45
        assert replica.election.holds()
        await settle()
        assert (replica.history, task.done()) == (["works"], False)


async def test_lease_lost_while_blocked_forbids_writes_and_cancels_the_work() -> None:
    async with leading() as (replica, task):
        replica.server.down = True
        replica.block(TERMS.renew_deadline - 2.5)
        assert replica.election.holds()
        replica.block(3.0)
        assert (replica.election.holds(), replica.election.lost) == (False, True)
        with pytest.raises(LeaseLost, match="not renewed for 10 s"):
            await asyncio.wait_for(task, 10)
        assert replica.history == ["works", "stops without the lease"]


async def test_lease_is_not_renewed_while_the_health_check_fails() -> None:
    async with leading() as (replica, task):
        replica.problem = "the main loop has been blocked for 61 s"
        other = LeaderElector("b", TERMS)
        other.observe(replica.server.lease, replica.clock.at)
        replica.block(TERMS.renew_deadline)
        assert not replica.election.holds()
        assert other.wait(replica.clock.at) > 0, "it stops leading before another can acquire the lease"
        replica.block(TERMS.lease_duration - TERMS.renew_deadline)
        other.observe(replica.server.lease, replica.clock.at)
        assert other.wait(replica.clock.at) == 0
        assert replica.server.lease is not None
        assert replica.server.lease.holder_identity == "a", "it is not released while writes may be in flight"
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(task, 10)


async def test_lease_is_kept_when_the_loop_recovers_in_time() -> None:
    async with leading() as (replica, _):
        replica.problem = "the main loop has been blocked for 61 s"
        replica.block(5.0)
        replica.problem = None
        replica.block(50.0)
        assert replica.election.holds()
        assert replica.history == ["works"]


async def test_lease_is_not_acquired_while_the_health_check_fails() -> None:
    server, clock = LeaseServer(), SteppedClock()
    election = Election(Lock(server), LeaderElector("a", TERMS), clock, health=lambda: "blocked")
    task = asyncio.create_task(election.lead(never_ending))
    for _ in range(100):
        await clock.advance(0.1)
        await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert server.writes == []


async def test_cancelled_election_keeps_the_lease_until_the_work_has_ended_and_releases_it() -> None:
    async with leading() as (replica, task):
        task.cancel()
        await replica.stopping.wait()
        replica.block(30.0)
        assert (replica.election.holds(), task.done()) == (True, False)
        replica.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        assert replica.history == ["works", "stops leading", "drained"]
        assert replica.server.writes[-1] == ""
        assert not replica.election.lost


async def test_exception_of_the_work_is_raised_and_the_lease_released() -> None:
    async def break_down() -> None:
        raise ValueError("a bug")

    server = LeaseServer()

    async def create() -> Election:
        return Election(Lock(server), LeaderElector("a", TERMS), SteppedClock())

    async with LoopThread("lease") as thread:
        election = ThreadedElection(await thread.run(create), thread)
        with pytest.raises(ValueError, match="a bug"):
            await asyncio.wait_for(election.lead(break_down), 10)
    assert server.writes == ["a", ""]
