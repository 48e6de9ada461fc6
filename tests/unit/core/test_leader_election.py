"""Leader election: claims, deadlines and waits of one candidate."""

from __future__ import annotations

import pytest

from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings

TIMINGS = LeaseTimings(lease_duration=15.0, renew_deadline=10.0, retry_period=2.0)
THEIRS = Lease("other", 15, 3, "long ago", "then")
OURS = Lease("me", 15, 3, "long ago", "then")


def candidate_for(seen: Lease | None = None, at: float = 100.0) -> LeaderElector:
    candidate = LeaderElector("me", TIMINGS)
    candidate.observe(seen, at)
    return candidate


@pytest.mark.parametrize(
    ("seen", "now", "seconds"),
    [
        pytest.param(None, 100.0, 0.0, id="no lease"),
        pytest.param(Lease("", 1, 3), 100.0, 0.0, id="a released lease"),
        pytest.param(OURS, 100.0, 0.0, id="ours already"),
        pytest.param(THEIRS, 100.0, 15.0, id="another's, just seen"),
        pytest.param(THEIRS, 114.5, 0.5, id="another's, not renewed for a while"),
        pytest.param(THEIRS, 115.0, 0.0, id="another's, expired"),
        pytest.param(Lease("other", 60, 3), 115.0, 45.0, id="the duration of the lease counts, not the configured one"),
        pytest.param(Lease("other"), 100.0, 0.0, id="without a duration"),
    ],
)
def test_wait_until_a_lease_may_be_claimed(seen: Lease | None, now: float, seconds: float) -> None:
    assert candidate_for(seen).wait(now) == seconds


def test_lease_expires_by_the_candidates_clock_since_its_last_change() -> None:
    candidate = candidate_for(THEIRS)
    candidate.observe(THEIRS, 110.0)
    assert candidate.wait(110.0) == 5.0
    candidate.observe(Lease("other", 15, 3, "long ago", "renewed"), 112.0)
    assert candidate.wait(112.0) == 15.0


@pytest.mark.parametrize(
    ("seen", "claim"),
    [
        pytest.param(None, Lease("me", 15, 0, "now", "now"), id="a new one"),
        pytest.param(THEIRS, Lease("me", 15, 4, "now", "now"), id="another's: one more transition"),
        pytest.param(Lease("", 1, 3), Lease("me", 15, 4, "now", "now"), id="released: one more transition"),
        pytest.param(OURS, Lease("me", 15, 3, "long ago", "now"), id="ours: renewed"),
    ],
)
def test_claimed_lease(seen: Lease | None, claim: Lease) -> None:
    assert candidate_for(seen).claim("now") == claim


def test_lease_duration_is_rounded_up_to_whole_seconds() -> None:
    assert LeaderElector("me", LeaseTimings(2.5, 2.0, 0.5)).claim("now").lease_duration_seconds == 3


def test_renew_deadline_counts_from_before_the_claim_was_sent() -> None:
    candidate = candidate_for()
    assert not candidate.is_leader(100.0)
    candidate.accepted(candidate.claim("now"), sent=101.0)
    assert candidate.is_leader(110.9)
    assert not candidate.is_leader(111.0)
    candidate.accepted(candidate.claim("later"), sent=103.0)
    assert candidate.is_leader(112.9)


def test_leader_stops_before_another_candidate_may_claim_its_lease() -> None:
    leader, other = candidate_for(), LeaderElector("other", TIMINGS)
    claim = leader.claim("now")
    leader.accepted(claim, sent=100.0)
    other.observe(claim, 100.0)
    assert leader.deadline <= 100.0 + other.wait(100.0) - 5.0


def test_leader_that_resigns_stops_and_writes_a_lease_that_may_be_claimed_at_once() -> None:
    candidate = candidate_for()
    candidate.accepted(candidate.claim("now"), sent=100.0)
    candidate.resign()
    assert not candidate.is_leader(100.0)
    assert candidate.resignation("later") == Lease("", 1, 0, "later", "later")
    assert candidate_for(candidate.resignation("later")).wait(100.0) == 0.0


@pytest.mark.parametrize(
    ("seen", "now", "jitter", "seconds"),
    [
        pytest.param(THEIRS, 100.0, 0.0, 2.0, id="the retry period"),
        pytest.param(THEIRS, 100.0, 0.5, 1.8, id="shortened by jitter"),
        pytest.param(THEIRS, 114.5, 0.0, 0.5, id="until the lease expires"),
        pytest.param(THEIRS, 115.0, 0.0, 2.0, id="expired, but the claim failed"),
        pytest.param(None, 100.0, 0.0, 2.0, id="no lease, but the claim failed"),
    ],
)
def test_pause_before_the_next_read(seen: Lease | None, now: float, jitter: float, seconds: float) -> None:
    assert candidate_for(seen).pause(now, jitter) == seconds
