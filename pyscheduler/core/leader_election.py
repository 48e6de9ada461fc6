"""Who may act under a Lease: what follows from what the API server says of it, and from the time.

Kubernetes components elect a leader by writing their name into a Lease and renewing it. Nobody trusts another's clock:
a lease has run out once it has been seen unchanged for as long as it says, by the clock of whoever looks (client-go's
tools/leaderelection does it so). A leader is stricter with itself. It counts from before it sent the last renewal that
was accepted, and stops at renewDeadline; so it has stopped before the lease can be anyone else's, by the difference to
leaseDuration at least. That time is for what it had sent before.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final

from msgspec import Struct

_JITTER: Final = 0.2
"""By how much of its length a retry period may be shortened, so that candidates do not keep in step."""


class Lease(Struct, frozen=True, rename="camel"):
    """What a Lease says (LeaseSpec of coordination.k8s.io/v1); times are texts of metav1.MicroTime."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    lease_transitions: int = 0
    acquire_time: str = ""
    renew_time: str = ""


class LeaseTimings(Struct, frozen=True):
    """How a lease is kept, in seconds: the fields of `leaderElection`."""

    lease_duration: float
    renew_deadline: float
    retry_period: float


class LeaderElector:
    """One who wants the lease. It is told what was seen and sent, and when; all times are seconds of one clock."""

    def __init__(self, identity: str, terms: LeaseTimings) -> None:
        self.identity = identity
        self.deadline = -inf
        """Until when it leads, unless a renewal is accepted before."""
        self.terms = terms
        self._seen: Lease | None = None
        self._seen_at = -inf

    @property
    def holder(self) -> str:
        """Who holds the lease by what was seen last, "" for nobody."""
        return self._seen.holder_identity if self._seen is not None else ""

    def is_leader(self, now: float) -> bool:
        """Whether it may act."""
        return now < self.deadline

    def observe(self, lease: Lease | None, now: float) -> None:
        """The API server says that this is the lease; None: there is none."""
        if lease != self._seen:
            self._seen, self._seen_at = lease, now

    def wait(self, now: float) -> float:
        """Seconds until it may claim the lease, by what was seen last; 0 if it may do so now."""
        if self._seen is None or self.holder in ("", self.identity):
            return 0.0
        return max(0.0, self._seen_at + self._seen.lease_duration_seconds - now)

    def pause(self, now: float, jitter: float) -> float:
        """Seconds until it looks again; `jitter` is drawn from [0, 1). A lease that runs out is taken at once."""
        period = self.terms.retry_period * (1 - _JITTER * jitter)
        return min(period, self.wait(now) or period)

    def claim(self, wall: str) -> Lease:
        """What to write in order to take the lease, or to keep it."""
        seen, seconds = self._seen, ceil(self.terms.lease_duration)
        if seen is None:
            return Lease(self.identity, seconds, 0, wall, wall)
        if seen.holder_identity == self.identity:
            return Lease(self.identity, seconds, seen.lease_transitions, seen.acquire_time, wall)
        return Lease(self.identity, seconds, seen.lease_transitions + 1, wall, wall)

    def accepted(self, claim: Lease, sent: float) -> None:
        """The API server has taken a claim; `sent` is a time before it was sent."""
        self.observe(claim, sent)
        self.deadline = sent + self.terms.renew_deadline

    def resign(self) -> None:
        """It leads no more, whatever the lease says."""
        self.deadline = -inf

    def resignation(self, wall: str) -> Lease:
        """What to write so that others need not wait: nobody's, and soon over for those who look at the time only."""
        return Lease("", 1, self._seen.lease_transitions if self._seen is not None else 0, wall, wall)
