"""Leader election: the replica that holds the Lease schedules. I/O for `core/leader_election.py`.

A leader renews its lease every retryPeriod. If renewDeadline passes without a successful renewal, leadership is lost:
`holds` returns False from that moment, even if this process was frozen, and `lead` raises LeaseLost.
`holds`, `lost` and `check` are safe in any thread: each reads single values that the election sets.

With the leader election of kubernetes_asyncio 36.1 a leader acts without a lease: with client-go's defaults (15, 10
and 2 s) it stopped 12 s after its last renewal if the API server rejected all others, and not within 25 s if it refused
connections or did not respond. Here it is 10 s in each case. ADR 14 has the other differences.
"""

from __future__ import annotations

import asyncio
import random
import socket
import uuid
from collections.abc import Callable
from math import inf
from typing import Final, Protocol

from pyscheduler import logs
from pyscheduler.api import ApiError
from pyscheduler.clock import Clock, rfc3339_micro
from pyscheduler.config.types import KubeSchedulerConfiguration
from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings
from pyscheduler.kube.connection import Connection, ConnectionOptions
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.outage import OutageLog, OutageMessages
from pyscheduler.shell.leadership import LeaseLost, Work
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.writers.lease import LeaseLock

NAME: Final = "kube-scheduler"
"""Name of the election in kube-scheduler's metrics and health check; independent of the Lease's name."""
CHECK: Final = "leaderElection"
"""Name of the health check."""
_OVERDUE: Final = 20.0
"""Seconds after expiry of the lease before the check of a still running leader fails (kube-scheduler's adaptor)."""
_RELEASE: Final = 5.0
"""Seconds that releasing the lease may take."""
_CALLS: Final = 2
_OUTAGE: Final = OutageMessages(
    begin="Cannot read or write the lease, retrying",
    summary="Still cannot read or write the lease, retrying",
    end="The lease can be read and written again",
)
log = logs.get("election")


Check = Callable[[], str | None]
"""Returns None if healthy, otherwise the problem."""


def _healthy() -> None:
    return None


class Lock(Protocol):
    """Access to the stored Lease; `LeaseLock` is the real one."""

    async def read(self) -> Lease | None:
        """Return the stored lease, None if there is none. ApiError."""

    async def write(self, lease: Lease) -> None:
        """Store `lease`. ApiError, also if it was changed since it was last read or written here."""

    async def record(self, message: str, wall: float) -> None:
        """Write a Kubernetes Event about the lease. ApiError."""

    async def close(self) -> None:
        """Close the connection."""


def election(
    configuration: KubeSchedulerConfiguration,
    calls: Connection,
    clock: Clock,
    metrics: Metrics,
    health: Check = _healthy,
) -> Election:
    """Return the election of a configuration, with its own connection to the server of `calls`.

    Must be called on the event loop that runs the election.
    """
    wanted = configuration.leader_election
    # One call that hangs must leave time for another before the deadline, as in client-go's resourcelock.
    deadlines = Deadlines().within(max(1.0, wanted.renew_deadline / 2))
    connection = calls.new_connection(ConnectionOptions(_CALLS, qps=-1, deadlines=deadlines))
    component = configuration.profiles[0].scheduler_name or ""
    lock = LeaseLock(connection, wanted.resource_namespace, wanted.resource_name, component)
    terms = LeaseTimings(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period)
    # The identity must differ between two processes on one host.
    candidate = LeaderElector(f"{socket.gethostname()}_{uuid.uuid4()}", terms)
    made = Election(lock, candidate, clock, lambda: metrics.count_slow_renewal(NAME), health)
    metrics.leading.set_function(lambda: {(NAME,): float(made.holds())})
    return made


class Election:
    """Candidacy for one lease; `lead` may be called once."""

    def __init__(
        self,
        lock: Lock,
        candidate: LeaderElector,
        clock: Clock,
        slow_path: Callable[[], None] = lambda: None,
        health: Check = _healthy,
    ) -> None:
        """Call `slow_path` when a renewal has to read the lease first.

        While `health` fails, the lease is neither acquired nor renewed.
        """
        self._lock = lock
        self._candidate = candidate
        self._terms = candidate.terms
        self._clock = clock
        self._slow_path = slow_path
        self._health = health
        self._unhealthy = False
        self._outages = OutageLog(log, clock, _OUTAGE)
        self._rng = random.Random()
        self._claimed = False
        """True if a claim was sent: the lease may be held even if no response came."""
        self._elected = False
        self._released = False
        self._announcing: asyncio.Task[None] | None = None

    def holds(self) -> bool:
        """Return True if this process holds the lease now."""
        return self._candidate.is_leader(self._clock.now())

    @property
    def lost(self) -> bool:
        return self._elected and not self._released and not self.holds()

    def check(self) -> str | None:
        """Return the health check's problem if the lease expired long ago and this process still runs, else None."""
        late = self._clock.now() - self._candidate.deadline
        allowed = self._terms.lease_duration - self._terms.renew_deadline + _OVERDUE
        if self._elected and allowed < late < inf:  # inf: the lease was released
            return f"failed election to renew leadership on lease {NAME}"
        return None

    async def lead(self, work: Work) -> None:
        """Wait for the lease, run `work` while holding it, then release it. LeaseLost if it is lost.

        When cancelled, it cancels `work` and renews the lease until `work` has ended.
        """
        log.info("Attempting to acquire the lease", lease=self._lock, identity=self._candidate.identity)
        try:
            await self._acquire()
            await self._work(work)
        finally:
            await self._release()
            if self._announcing is not None:
                self._announcing.cancel()

    async def close(self) -> None:
        """Close the connection; call last."""
        await self._lock.close()

    async def _acquire(self) -> None:
        while not await self._try():
            await self._clock.sleep(self._candidate.pause(self._clock.now(), self._rng.random()))
        self._elected = True
        log.info("Acquired the lease", lease=self._lock)
        self._announcing = asyncio.create_task(self._announce())

    async def _work(self, work: Work) -> None:
        working = asyncio.ensure_future(work())
        tasks = [working, asyncio.create_task(self._renew()), asyncio.create_task(self._until_deadline())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            working.cancel()
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._terms.retry_period)
            await self._try()

    async def _until_deadline(self) -> None:
        while (left := self._candidate.deadline - self._clock.now()) > 0:
            await self._clock.sleep(left)
        raise self._overdue()

    async def _try(self) -> bool:
        """Acquire or renew the lease. Return True if that succeeded."""
        if not self._is_healthy():
            return False
        if self._elected:
            try:
                # Usually no other process has written it, so that one call suffices.
                await self._claim()
                self._outages.succeed(self)
                return True
            except ApiError as problem:
                log.info("Renewal failed, reading the lease first", v=2, lease=self._lock, err=str(problem))
        try:
            has_claimed = await self._read_and_claim()
        except ApiError as problem:
            self._outages.fail(self, problem, lease=self._lock)
            return False
        self._outages.succeed(self)
        return has_claimed

    def _is_healthy(self) -> bool:
        problem = self._health()
        if problem and not self._unhealthy:
            log.error("Not renewing the lease while unhealthy", lease=self._lock, err=problem)
        self._unhealthy = problem is not None
        return not self._unhealthy

    async def _read_and_claim(self) -> bool:
        candidate = self._candidate
        candidate.observe(await self._lock.read(), self._clock.now())
        if self._elected and candidate.holder not in ("", candidate.identity):
            candidate.resign()
            raise LeaseLost(f"{candidate.holder} has taken it")
        if candidate.wait(self._clock.now()):
            log.info("The lease is held", v=4, lease=self._lock, holder=candidate.holder)
            return False
        if candidate.holder == candidate.identity:
            self._slow_path()
        await self._claim()
        return True

    async def _claim(self) -> None:
        if self._elected and not self.holds():
            raise self._overdue()
        claim = self._candidate.claim(self._wall())
        sent = self._clock.now()
        self._claimed = True
        await self._lock.write(claim)
        self._candidate.accepted(claim, sent)

    def _overdue(self) -> LeaseLost:
        return LeaseLost(f"it was not renewed for {self._terms.renew_deadline:g} s")

    async def _release(self) -> None:
        """Release the lease, so that another replica can acquire it at once, unless it may be another's already."""
        if not self._claimed or self.lost:
            return
        self._released = True
        self._candidate.resign()
        try:
            async with asyncio.timeout(_RELEASE):
                lease = await self._lock.read()
                if lease is not None and lease.holder_identity == self._candidate.identity:
                    self._candidate.observe(lease, self._clock.now())
                    await self._lock.write(self._candidate.resignation(self._wall()))
                    log.info("Released the lease", lease=self._lock)
        except (ApiError, TimeoutError) as problem:
            log.warning("Failed to release the lease, it will expire", problem, lease=self._lock)

    async def _announce(self) -> None:
        try:
            await self._lock.record(f"{self._candidate.identity} became leader", self._clock.wall())
        except ApiError as problem:
            log.warning("Failed to write the Event about the lease", problem, lease=self._lock)

    def _wall(self) -> str:
        return rfc3339_micro(self._clock.wall())
