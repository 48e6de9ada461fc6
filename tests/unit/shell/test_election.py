"""Leader election on virtual time: replicas, one lease, an API server that may fail."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from socket import gethostname

import pytest

from pyscheduler.api import ApiError
from pyscheduler.config.types import KubeSchedulerConfiguration, LeaderElection
from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings
from pyscheduler.kube.connection import Connection
from pyscheduler.shell.election import Election, election
from pyscheduler.shell.leadership import LeaseLost
from pyscheduler.shell.metrics import Metrics
from tests.unit.kube.fake_api import FakeApi, ok, refused
from tests.unit.kube.virtual import SteppedClock

TERMS = LeaseTimings(lease_duration=15.0, renew_deadline=10.0, retry_period=2.0)


@dataclass
class LeaseServer:
    """Stores the lease. `down` fails all calls; `unresponsive` executes writes without a response."""

    lease: Lease | None = None
    down: bool = False
    unresponsive: bool = False
    writes: list[str] = field(default_factory=list)
    """Holder of each write, in order; "" for a release."""
    events: list[str] = field(default_factory=list)


class Lock:
    """One replica's access to the lease."""

    def __init__(self, server: LeaseServer) -> None:
        self._server = server
        self._known: Lease | None = None

    async def read(self) -> Lease | None:
        self._check()
        self._known = self._server.lease
        return self._known

    async def write(self, lease: Lease) -> None:
        self._check()
        if self._known != self._server.lease:
            raise ApiError(409, "Conflict", "the object has been modified")
        self._server.lease = lease
        self._server.writes.append(lease.holder_identity)
        if self._server.unresponsive:
            raise ApiError(0, "Timeout", "no answer in time")
        self._known = lease

    async def record(self, message: str, wall: float) -> None:
        self._server.events.append(message)

    async def close(self) -> None:
        """There is nothing to close."""

    def _check(self) -> None:
        if self._server.down:
            raise ApiError(0, "Unreachable", "connection refused")


@dataclass
class Replica:
    """A scheduler that takes `drain` seconds to stop."""

    election: Election
    clock: SteppedClock
    drain: float = 0.0
    history: list[str] = field(default_factory=list)

    async def work(self) -> None:
        self.history.append("works")
        try:
            await asyncio.Event().wait()
        finally:
            self.history.append("stops leading" if self.election.holds() else "stops without the lease")
            if self.election.holds() and self.drain:
                await self.clock.sleep(self.drain)
                self.history.append("drained")


@dataclass
class ElectionFixture:
    """Replicas that share a clock and a server."""

    clock: SteppedClock = field(default_factory=SteppedClock)
    server: LeaseServer = field(default_factory=LeaseServer)
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    slow: int = 0

    async def start(self, name: str, drain: float = 0.0) -> Replica:
        election = Election(Lock(self.server), LeaderElector(name, TERMS), self.clock, self._count_slow_path)
        replica = Replica(election, self.clock, drain)
        self.tasks[name] = asyncio.create_task(election.lead(replica.work))
        await settle()
        return replica

    def _count_slow_path(self) -> None:
        self.slow += 1

    async def wait(self, seconds: float) -> None:
        """Advance the clock in small steps and run all tasks in between."""
        for _ in range(round(seconds * 10)):
            await self.clock.advance(0.1)
            await settle()

    async def seconds_until(self, holds: Callable[[], object]) -> float:
        began = self.clock.now()
        while not holds():
            assert self.clock.now() - began < 60, "the condition never became true"
            await self.wait(0.1)
        return self.clock.now() - began


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@asynccontextmanager
async def running_replicas() -> AsyncIterator[ElectionFixture]:
    replicas = ElectionFixture()
    yield replicas
    for task in replicas.tasks.values():
        task.cancel()
    await asyncio.gather(*replicas.tasks.values(), return_exceptions=True)


async def test_one_of_two_replicas_leads_and_renews() -> None:
    async with running_replicas() as replicas:
        a, b = await replicas.start("a"), await replicas.start("b")
        await replicas.wait(100)
        assert (a.election.holds(), a.history, b.election.holds(), b.history) == (True, ["works"], False, [])
        assert replicas.server.events == ["a became leader"]
        assert len(replicas.server.writes) >= 48
        assert replicas.slow == 0


async def test_stopping_leader_releases_the_lease_and_the_other_acquires_it_within_a_retry_period() -> None:
    async with running_replicas() as replicas:
        a, b = await replicas.start("a", drain=3.0), await replicas.start("b")
        await replicas.wait(30)
        replicas.tasks["a"].cancel()
        await replicas.wait(2.9)
        assert (a.election.holds(), b.history) == (True, []), "the lease is kept while bindings end"
        assert await replicas.seconds_until(lambda: b.history) <= TERMS.retry_period + 0.3
        assert replicas.tasks["a"].cancelled()
        assert a.history == ["works", "stops leading", "drained"]
        assert replicas.server.lease is not None
        assert (replicas.server.lease.holder_identity, replicas.server.lease.lease_transitions) == ("b", 1)


async def test_lease_of_a_vanished_leader_is_acquired_after_it_expires() -> None:
    async with running_replicas() as replicas:
        replicas.server.lease = Lease("gone", 15, 0, "x", "y")
        b = await replicas.start("b")
        assert 14.9 <= await replicas.seconds_until(lambda: b.history) <= 15.2


async def test_leader_stops_at_the_renew_deadline_before_the_lease_expires() -> None:
    async with running_replicas() as replicas:
        a = await replicas.start("a", drain=5.0)
        await replicas.wait(20)
        replicas.server.down = True
        assert await replicas.seconds_until(lambda: not a.election.holds()) <= TERMS.renew_deadline + 0.2
        await settle()
        assert a.history == ["works", "stops without the lease"]
        with pytest.raises(LeaseLost, match="not renewed for 10 s"):
            await asyncio.wait_for(replicas.tasks["a"], 5)
        assert replicas.server.lease is not None
        assert replicas.server.lease.holder_identity == "a", "a lease that another may hold is not written"


async def test_leader_survives_an_outage_shorter_than_the_deadline() -> None:
    async with running_replicas() as replicas:
        a = await replicas.start("a")
        await replicas.wait(20)
        replicas.server.down = True
        await replicas.wait(7)
        replicas.server.down = False
        await replicas.wait(20)
        assert a.election.holds()
        assert a.history == ["works"]


async def test_renewal_without_a_response_is_resolved_by_reading_the_lease() -> None:
    async with running_replicas() as replicas:
        a = await replicas.start("a")
        await replicas.wait(4)
        replicas.server.unresponsive = True
        await replicas.wait(3)
        replicas.server.unresponsive = False
        await replicas.wait(20)
        assert a.election.holds()
        assert replicas.slow > 0


async def test_leader_stops_at_once_when_another_holds_the_lease() -> None:
    async with running_replicas() as replicas:
        a = await replicas.start("a")
        await replicas.wait(4)
        replicas.server.lease = Lease("b", 15, 1, "x", "y")
        await replicas.seconds_until(lambda: a.history[1:])
        assert a.history == ["works", "stops without the lease"]
        with pytest.raises(LeaseLost, match="b has taken it"):
            await asyncio.wait_for(replicas.tasks["a"], 5)


async def test_frozen_leader_does_not_hold_the_lease_when_it_resumes() -> None:
    async with running_replicas() as replicas:
        a = await replicas.start("a")
        await replicas.wait(4)
        replicas.clock.at += 11.0  # the process was frozen
        assert not a.election.holds()
        await replicas.wait(0.1)
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(replicas.tasks["a"], 5)
        assert len(replicas.server.writes) <= 3, "a lease that another may hold is not renewed"


async def test_replica_stopped_while_waiting_does_not_write_the_lease() -> None:
    async with running_replicas() as replicas:
        await replicas.start("a")
        b = await replicas.start("b")
        await replicas.wait(5)
        replicas.tasks["b"].cancel()
        await settle()
        assert replicas.tasks["b"].cancelled()
        assert b.history == []
        assert "" not in replicas.server.writes


async def test_replica_stopped_before_the_response_to_its_claim_releases_the_lease() -> None:
    async with running_replicas() as replicas:
        replicas.server.unresponsive = True
        await replicas.start("a")
        replicas.server.unresponsive = False
        replicas.tasks["a"].cancel()
        await settle()
        assert replicas.server.writes == ["a", ""]


async def test_exception_of_the_work_is_raised_and_the_lease_released() -> None:
    async def break_down() -> None:
        raise ValueError("a bug")

    async with running_replicas() as replicas:
        election = Election(Lock(replicas.server), LeaderElector("a", TERMS), replicas.clock)
        with pytest.raises(ValueError, match="a bug"):
            await election.lead(break_down)
        assert replicas.server.writes == ["a", ""]


async def test_the_check_fails_when_a_leader_outlives_its_lease_by_20_seconds() -> None:
    async with running_replicas() as replicas:
        a, b = await replicas.start("a"), await replicas.start("b")
        assert (a.election.check(), b.election.check()) == (None, None)
        renewed = replicas.clock.at
        replicas.clock.at = renewed + 35.0
        assert (a.election.check(), b.election.check()) == (None, None)
        replicas.clock.at = renewed + 35.1
        assert a.election.check() == "failed election to renew leadership on lease kube-scheduler"
        assert b.election.check() is None


async def never_ending() -> None:
    await asyncio.Event().wait()


async def test_election_uses_the_configured_lease_and_identity(api: FakeApi, connection: Connection) -> None:
    wanted = LeaderElection(resource_name="mine", resource_namespace="there")
    configuration = KubeSchedulerConfiguration(leader_election=wanted)
    metrics, leases = Metrics(), "/apis/coordination.k8s.io/v1/namespaces/there/leases"
    api.script(f"{leases}/mine", refused(404, "NotFound"))
    api.script(leases, ok({}))
    api.script("/api/v1/namespaces/there/events", ok({}))
    made = election(configuration, connection, SteppedClock(), metrics)
    assert metrics.leading.read() == {("kube-scheduler",): 0.0}
    leading = asyncio.create_task(made.lead(never_ending))
    await api.called(3)
    assert metrics.leading.read() == {("kube-scheduler",): 1.0}
    claim, event = (call.json for call in api.of("POST"))
    assert re.fullmatch(rf"{re.escape(gethostname())}_[0-9a-f-]{{36}}", claim["spec"]["holderIdentity"])
    assert claim["spec"]["leaseDurationSeconds"] == 15
    assert event["message"] == f"{claim['spec']['holderIdentity']} became leader"
    assert event["source"] == {"component": "default-scheduler"}
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    assert metrics.leading.read() == {("kube-scheduler",): 0.0}
    await made.close()


async def test_outage_is_logged_when_it_begins_every_half_minute_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", logger="pyscheduler.election")
    async with running_replicas() as replicas:
        replicas.server.lease = Lease("gone", 15, 0, "x", "y")
        replicas.server.down = True
        b = await replicas.start("b")
        await replicas.wait(70)
        replicas.server.down = False
        await replicas.seconds_until(lambda: b.history)
    counted = [line.message for line in caplog.records if "lease" in line.message and "cquir" not in line.message]
    assert counted == [
        "Cannot read or write the lease, retrying",
        *["Still cannot read or write the lease, retrying"] * 2,
        "The lease can be read and written again",
        "Released the lease",
    ]
