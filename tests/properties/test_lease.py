"""However calls are lost and delayed, no two candidates lead at once; and a bug that would let them is found."""

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
    """A pause, then a look at the lease and a claim; calls take a while each way, and an answer may get lost."""

    pause: float = 0.0
    way_there: float = 0.0
    way_back: float = 0.0
    looks: bool = True
    lost: bool = False


class LeaseFixture:
    """A server with one lease, and candidates that live side by side."""

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
        """What one candidate does; yields the seconds until it goes on."""
        known: Lease | None = None
        for step in steps:
            yield step.pause
            if step.looks:
                known = self.lease
                yield step.way_back
                candidate.observe(known, self.now)
            if candidate.wait(self.now):
                continue
            self.claims += 1
            sent, claim = self.now, candidate.claim(f"claim {self.claims}")
            yield step.way_there
            accepted = self.lease == known
            if accepted:
                self.lease = claim
            yield step.way_back
            if accepted and not step.lost:
                known = claim
                candidate.accepted(claim, sent)
                self.check()

    def check(self) -> None:
        """Another may only come to lead when an answer comes, which is when this is asked."""
        leaders = [c.identity for c in self.candidates if c.is_leader(self.now)]
        assert len(leaders) <= 1, f"{leaders} lead at {self.now:.1f}"


LIFE = st.lists(st.builds(Step, DELAYS, DELAYS, DELAYS, st.booleans(), st.booleans()), max_size=12)


@given(st.lists(LIFE, min_size=2, max_size=3))
@settings(max_examples=300, deadline=None)
def test_no_two_lead_at_once(lives: list[list[Step]]) -> None:
    LeaseFixture(lives).run()


def test_a_deadline_counted_from_the_answer_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_answer = [Step(way_back=2.5, looks=False)]
    sees_it_early_and_takes_it_when_it_has_run_out = [Step(pause=0.1), Step(pause=3.1)]
    lives = [slow_answer, sees_it_early_and_takes_it_when_it_has_run_out]
    LeaseFixture(lives).run()

    def late(self: LeaderElector, claim: Lease, sent: float) -> None:
        self.observe(claim, sent)
        self.deadline = sent + slow_answer[0].way_back + TERMS.renew_deadline

    monkeypatch.setattr(LeaderElector, "accepted", late)
    with pytest.raises(AssertionError, match="lead at"):
        LeaseFixture(lives).run()
