"""No two candidates lead at the same time, however calls are lost or delayed; and a planted bug is found."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings

TERMS = LeaseTimings(lease_duration=3.0, renew_deadline=2.0, retry_period=0.5)
DELAYS = st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.9, 2.5, 3.1, 4.0])


class Step(Struct, frozen=True):
    """A pause, then a read and a claim of the lease; calls take time each way, and a response may get lost."""

    pause: float = 0.0
    way_there: float = 0.0
    way_back: float = 0.0
    looks: bool = True
    lost: bool = False


class LeaseFixture:
    """A server with one lease, and concurrent candidates."""

    def __init__(self, lives: Sequence[Sequence[Step]]) -> None:
        self.now = 100.0
        self.lease: Lease | None = None
        self.candidates = [LeaderElector(f"c{i}", TERMS) for i in range(len(lives))]
        self.claims = 0
        self.lives = [self.life(candidate, steps) for candidate, steps in zip(self.candidates, lives, strict=True)]

    def run(self) -> None:
        due = [(self.now, i) for i in range(len(self.lives))]
        while due:
            self.now, i = heapq.heappop(due)
            wait = next(self.lives[i], None)
            if wait is not None:
                heapq.heappush(due, (self.now + wait, i))

    def life(self, candidate: LeaderElector, steps: Sequence[Step]) -> Iterator[float]:
        """Run one candidate; yields the seconds until its next action."""
        last_lease: Lease | None = None
        for step in steps:
            yield step.pause
            if step.looks:
                last_lease = self.lease
                yield step.way_back
                candidate.observe(last_lease, self.now)
            if candidate.wait(self.now):
                continue
            self.claims += 1
            sent, claim = self.now, candidate.claim(f"claim {self.claims}")
            yield step.way_there
            accepted = self.lease == last_lease
            if accepted:
                self.lease = claim
            yield step.way_back
            if accepted and not step.lost:
                last_lease = claim
                candidate.accepted(claim, sent)
                self.check()

    def check(self) -> None:
        """Check that at most one candidate leads; called at each response, the only time when a leader can change."""
        leaders = [c.identity for c in self.candidates if c.is_leader(self.now)]
        assert len(leaders) <= 1, f"{leaders} lead at {self.now:.1f}"


LIFE = st.lists(st.builds(Step, DELAYS, DELAYS, DELAYS, st.booleans(), st.booleans()), max_size=12)


@given(st.lists(LIFE, min_size=2, max_size=3))
@settings(max_examples=300, deadline=None)
def test_at_most_one_candidate_leads(lives: list[list[Step]]) -> None:
    LeaseFixture(lives).run()


def test_property_catches_deadline_counted_from_response(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_response = [Step(way_back=2.5, looks=False)]
    takes_expired_lease = [Step(pause=0.1), Step(pause=3.1)]
    lives = [slow_response, takes_expired_lease]
    LeaseFixture(lives).run()

    def late(self: LeaderElector, claim: Lease, sent: float) -> None:
        self.observe(claim, sent)
        self.deadline = sent + slow_response[0].way_back + TERMS.renew_deadline

    monkeypatch.setattr(LeaderElector, "accepted", late)
    with pytest.raises(AssertionError, match="lead at"):
        LeaseFixture(lives).run()
