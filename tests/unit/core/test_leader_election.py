"""What a candidate makes of a lease, and of the time."""

from __future__ import annotations

import pytest

from pyscheduler.core.leader_election import LeaderElector, Lease, LeaseTimings

TERMS = LeaseTimings(lease_duration=15.0, renew_deadline=10.0, retry_period=2.0)
THEIRS = Lease("other", 15, 3, "long ago", "then")
OURS = Lease("me", 15, 3, "long ago", "then")


def me(seen: Lease | None = None, at: float = 100.0) -> LeaderElector:
    candidate = LeaderElector("me", TERMS)
    candidate.observe(seen, at)
    return candidate


@pytest.mark.parametrize(
    ("seen", "now", "seconds"),
    [
        pytest.param(None, 100.0, 0.0, id="there is none"),
        pytest.param(Lease("", 1, 3), 100.0, 0.0, id="nobody's"),
        pytest.param(OURS, 100.0, 0.0, id="ours already"),
        pytest.param(THEIRS, 100.0, 15.0, id="another's, just seen"),
        pytest.param(THEIRS, 114.5, 0.5, id="another's, not renewed for a while"),
        pytest.param(THEIRS, 115.0, 0.0, id="another's, which has run out"),
        pytest.param(Lease("other", 60, 3), 115.0, 45.0, id="its own duration counts, not ours"),
        pytest.param(Lease("other"), 100.0, 0.0, id="without a duration"),
    ],
)
def test_when_a_lease_may_be_claimed(seen: Lease | None, now: float, seconds: float) -> None:
    assert me(seen).wait(now) == seconds


def test_a_lease_runs_out_by_the_time_of_whoever_looks_and_from_its_last_change() -> None:
    candidate = me(THEIRS)
    candidate.observe(THEIRS, 110.0)
    assert candidate.wait(110.0) == 5.0
    candidate.observe(Lease("other", 15, 3, "long ago", "renewed"), 112.0)
    assert candidate.wait(112.0) == 15.0


@pytest.mark.parametrize(
    ("seen", "claim"),
    [
        pytest.param(None, Lease("me", 15, 0, "now", "now"), id="a new one"),
        pytest.param(THEIRS, Lease("me", 15, 4, "now", "now"), id="another's: one more transition"),
        pytest.param(Lease("", 1, 3), Lease("me", 15, 4, "now", "now"), id="nobody's: one more transition"),
        pytest.param(OURS, Lease("me", 15, 3, "long ago", "now"), id="ours: renewed"),
    ],
)
def test_what_is_claimed(seen: Lease | None, claim: Lease) -> None:
    assert me(seen).claim("now") == claim


def test_a_part_of_a_second_is_promised_as_a_whole_one() -> None:
    assert LeaderElector("me", LeaseTimings(2.5, 2.0, 0.5)).claim("now").lease_duration_seconds == 3


def test_a_leader_leads_until_the_deadline_counted_from_before_the_claim_was_sent() -> None:
    candidate = me()
    assert not candidate.is_leader(100.0)
    candidate.accepted(candidate.claim("now"), sent=101.0)
    assert candidate.is_leader(110.9)
    assert not candidate.is_leader(111.0)
    candidate.accepted(candidate.claim("later"), sent=103.0)
    assert candidate.is_leader(112.9)


def test_a_leader_stops_before_anyone_may_take_its_lease() -> None:
    leader, other = me(), LeaderElector("other", TERMS)
    claim = leader.claim("now")
    leader.accepted(claim, sent=100.0)
    other.observe(claim, 100.0)
    assert leader.deadline <= 100.0 + other.wait(100.0) - 5.0


def test_who_resigns_leads_no_more_and_leaves_a_lease_that_all_may_claim() -> None:
    candidate = me()
    candidate.accepted(candidate.claim("now"), sent=100.0)
    candidate.resign()
    assert not candidate.is_leader(100.0)
    assert candidate.resignation("later") == Lease("", 1, 0, "later", "later")
    assert me(candidate.resignation("later")).wait(100.0) == 0.0


@pytest.mark.parametrize(
    ("seen", "now", "chance", "seconds"),
    [
        pytest.param(THEIRS, 100.0, 0.0, 2.0, id="the retry period"),
        pytest.param(THEIRS, 100.0, 0.5, 1.8, id="a little less, by chance"),
        pytest.param(THEIRS, 114.5, 0.0, 0.5, id="until it runs out"),
        pytest.param(THEIRS, 115.0, 0.0, 2.0, id="it has run out and could not be had"),
        pytest.param(None, 100.0, 0.0, 2.0, id="there is none and it could not be made"),
    ],
)
def test_when_a_candidate_looks_again(seen: Lease | None, now: float, chance: float, seconds: float) -> None:
    assert me(seen).pause(now, chance) == seconds
