"""Leader election by a Lease, as a state machine over observed leases and the time.

Kubernetes components elect a leader by writing their identity into a Lease and renewing it. Clocks are not compared: a
candidate takes a lease as expired once it has seen it unchanged for its leaseDurationSeconds by its own clock, as in
client-go's tools/leaderelection. A leader stops earlier: renewDeadline after the moment before it sent the last
accepted renewal. So it has stopped at least leaseDuration - renewDeadline before another candidate can take the lease,
which leaves that time for the requests it had already sent.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final

from msgspec import Struct

_JITTER: Final = 0.2
"""Maximum share by which a retry period is shortened, so that candidates do not retry in step."""


class Lease(Struct, frozen=True, rename="camel"):
    """LeaseSpec of coordination.k8s.io/v1; times are strings in metav1.MicroTime format."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    lease_transitions: int = 0
    acquire_time: str = ""
    renew_time: str = ""


class LeaseTimings(Struct, frozen=True):
    """Timings of the `leaderElection` configuration, in seconds."""

    lease_duration: float
    renew_deadline: float
    retry_period: float


class LeaderElector:
    """State of one candidate. The caller reports observed leases and accepted claims, in seconds on one clock."""

    def __init__(self, identity: str, terms: LeaseTimings) -> None:
        self.identity = identity
        self.deadline = -inf
        """Time until which it leads, unless a renewal is accepted before."""
        self.terms = terms
        self._observed: Lease | None = None
        self._observed_at = -inf

    @property
    def holder(self) -> str:
        """Identity of the holder by the last observed lease, or ""."""
        return self._observed.holder_identity if self._observed is not None else ""

    def is_leader(self, now: float) -> bool:
        """Return True if it is the leader at that time."""
        return now < self.deadline

    def observe(self, lease: Lease | None, now: float) -> None:
        """Record the lease as read from the API server; None if there is none."""
        if lease != self._observed:
            self._observed, self._observed_at = lease, now

    def wait(self, now: float) -> float:
        """Return the seconds until it may claim the last observed lease; 0 if it may do so now."""
        if self._observed is None or self.holder in ("", self.identity):
            return 0.0
        return max(0.0, self._observed_at + self._observed.lease_duration_seconds - now)

    def pause(self, now: float, jitter: float) -> float:
        """Return the seconds until the next read, at the latest when the lease expires; `jitter` is in [0, 1)."""
        period = self.terms.retry_period * (1 - _JITTER * jitter)
        return min(period, self.wait(now) or period)

    def claim(self, wall: str) -> Lease:
        """Return the Lease to write in order to acquire or renew it."""
        observed, seconds = self._observed, ceil(self.terms.lease_duration)
        if observed is None:
            return Lease(self.identity, seconds, 0, wall, wall)
        if observed.holder_identity == self.identity:
            return Lease(self.identity, seconds, observed.lease_transitions, observed.acquire_time, wall)
        return Lease(self.identity, seconds, observed.lease_transitions + 1, wall, wall)

    def accepted(self, claim: Lease, sent: float) -> None:
        """Record a claim that the API server accepted; `sent` is a time before the request was sent."""
        self.observe(claim, sent)
        self.deadline = sent + self.terms.renew_deadline

    def resign(self) -> None:
        """Stop leading, whatever the lease contains."""
        self.deadline = -inf

    def resignation(self, wall: str) -> Lease:
        """Return the Lease to write on release: no holder, and 1 second for clients that check only the duration."""
        return Lease("", 1, self._observed.lease_transitions if self._observed is not None else 0, wall, wall)
