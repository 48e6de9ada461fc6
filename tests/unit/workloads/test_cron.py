"""When a CronJob starts a Job, and what becomes of the Jobs before it: a story in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pyscheduler.embedded.client import JOBS
from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.workloads import cron
from pyscheduler.embedded.workloads.actions import Create, Delete, Plan, Record
from pyscheduler.embedded.workloads.cron.schedule import Every, ScheduleError, parse
from tests.unit.workloads.builders import Json, status_of


def at(text: str) -> float:
    """Seconds since 1970 of a time in UTC: `2026-01-31 10:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOON = at("2026-03-02 12:00")  # a Monday


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("* * * * *", "2026-01-01 00:00:30", "2026-01-01 00:01"),
        ("* * * * *", "2026-01-01 00:01:00", "2026-01-01 00:02"),
        ("*/15 * * * *", "2026-01-01 00:16", "2026-01-01 00:30"),
        ("0 5 * * *", "2026-01-01 00:16", "2026-01-01 05:00"),
        ("5/20 * * * *", "2026-01-01 00:06", "2026-01-01 00:25"),
        ("0 6-16/4 * * 1-5", "2026-01-02 14:00", "2026-01-05 06:00"),
        ("30 4 1,15 * 5", "2026-01-01 05:00", "2026-01-02 04:30"),
        ("30 4 1,15 * *", "2026-01-01 05:00", "2026-01-15 04:30"),
        ("0 0 */2 * 1", "2026-01-02 00:00", "2026-01-03 00:00"),
        ("0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"),
        ("0 0 * JAN,mar Sun", "2026-01-31 00:00", "2026-03-01 00:00"),
        ("@hourly", "2026-01-01 00:00", "2026-01-01 01:00"),
        ("@weekly", "2026-01-01 00:00", "2026-01-04 00:00"),
        ("@monthly", "2026-01-31 12:00", "2026-02-01 00:00"),
        ("@yearly", "2026-01-01 00:00", "2027-01-01 00:00"),
        ("0 0 ? * ?", "2026-01-01 00:00", "2026-01-02 00:00"),
    ],
)
def test_what_a_schedule_means(text: str, after: str, expected: str) -> None:
    assert parse(text).next_after(at(after)) == at(expected)


def test_a_schedule_that_never_comes() -> None:
    assert parse("59 23 31 2 *").next_after(0.0) == float("inf")


def test_a_fixed_pause() -> None:
    assert parse("@every 1h30m") == Every(5400)
    assert Every(60).next_after(10.7) == 70


@pytest.mark.parametrize(
    ("text", "zone", "words"),
    [
        ("* * * *", "", "expected exactly 5 fields, found 4"),
        ("60 * * * *", "", "minute: 60 is not within 0-59"),
        ("* * * * 7", "", "day of week: 7 is not within 0-6"),
        ("9-5 * * * *", "", "minute: 9-5"),
        ("*/0 * * * *", "", "steps by 0"),
        ("x * * * *", "", "minute: 'x' is not a number"),
        ("* * 0 * *", "", "day of month: 0"),
        ("@soon", "", "unrecognized descriptor: @soon"),
        ("@every soon", "", "no duration"),
        ("TZ=UTC * * * * *", "", "timeZone"),
        ("* * * * *", "Mars/Olympus", "unknown time zone Mars/Olympus"),
        ("* * * * *", "../etc/passwd", "unknown time zone"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, zone: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words.replace("*", r"\*")):
        parse(text, zone)


def test_a_time_zone_moves_the_run_and_skips_what_the_clock_skips() -> None:
    berlin = parse("30 2 * * *", "Europe/Berlin")
    assert berlin.next_after(at("2026-01-01 12:00")) == at("2026-01-02 01:30")
    assert berlin.next_after(at("2026-03-28 12:00")) == at("2026-03-30 00:30"), "on the 29th there is no 02:30"
    autumn = berlin.next_after(at("2026-10-24 12:00"))
    assert (autumn, berlin.next_after(autumn)) == (at("2026-10-25 00:30"), at("2026-10-25 01:30"))


class CronJobFixture:
    """A CronJob, its Jobs, and a clock that the test moves."""

    def __init__(self, schedule: str = "*/10 * * * *", **spec: Any) -> None:
        self.now, self.said = NOON, [""]
        meta = {"name": "c", "namespace": "default", "uid": "c", "creationTimestamp": timestamp(NOON)}
        template = {"metadata": {"labels": {"app": "c"}}, "spec": {"template": {}}}
        limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
        self.cron: Json = {"kind": "CronJob", "metadata": meta, "status": {}}
        self.cron["spec"] = {"schedule": schedule, "jobTemplate": template, **limits, **spec}
        self.jobs: dict[str, Json] = {}

    def look(self, minutes: float = 0) -> Plan:
        """Let time pass, and carry out what the controller wants."""
        self.now += 60 * minutes
        plan = cron.reconcile(self.cron, list(self.jobs.values()), self.now)
        for action in plan.actions:
            if isinstance(action, Create):
                name = action.obj["metadata"]["name"]
                self.jobs[name] = {**action.obj, "status": {"startTime": timestamp(self.now)}}
                self.jobs[name]["metadata"] = {**action.obj["metadata"], "uid": name}
            elif isinstance(action, Delete):
                assert action.resource == JOBS
                del self.jobs[action.key[1]]
        self.said = [action.reason for action in plan.actions if isinstance(action, Record)]
        self.cron["status"] = status_of(plan, self.cron["status"])
        return plan

    def end(self, number: int, kind: str = "Complete") -> None:
        """One of the Jobs ends, the oldest being 0."""
        status = self.jobs[self.names[number]]["status"]
        status |= {"conditions": [{"type": kind, "status": "True"}], "completionTime": timestamp(self.now)}

    @property
    def names(self) -> list[str]:
        return sorted(self.jobs)

    @property
    def active(self) -> list[str]:
        return [reference["name"] for reference in self.cron["status"].get("active", [])]


def name(minutes: int) -> str:
    """The Job of the run so many minutes after noon."""
    return f"c-{int(NOON) // 60 + minutes}"


def test_a_job_starts_at_its_time_and_only_once() -> None:
    world = CronJobFixture()
    assert world.look().requeue_at == NOON + 600.1
    assert world.jobs == {}
    plan = world.look(10)
    assert (world.names, plan.requeue_at) == ([name(10)], NOON + 1200.1)
    assert world.cron["status"]["lastScheduleTime"] == "2026-03-02T12:10:00Z"
    made = world.jobs[name(10)]["metadata"]
    assert made["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-02T12:10:00Z"
    assert (made["labels"], made["ownerReferences"][0]["kind"]) == ({"app": "c"}, "CronJob")
    world.look(1)
    assert (world.names, world.active) == ([name(10)], [name(10)])


def test_the_scheduled_time_is_told_in_the_time_zone() -> None:
    world = CronJobFixture(timeZone="Asia/Kolkata")
    world.look(10)
    annotations = world.jobs[world.names[0]]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-02T17:40:00+05:30"


@pytest.mark.parametrize(
    ("policy", "left", "said"),
    [
        ("Allow", [name(10), name(20)], []),
        ("Forbid", [name(10)], ["JobAlreadyActive"]),
        ("Replace", [name(20)], []),
    ],
)
def test_what_becomes_of_a_run_that_is_not_over(policy: str, left: list[str], said: list[str]) -> None:
    world = CronJobFixture(concurrencyPolicy=policy)
    world.look(10)
    world.look(10)
    assert (world.names, world.said) == (left, said)
    world.look()
    assert world.active == left


def test_forbid_makes_up_for_the_run_once_the_other_is_over() -> None:
    world = CronJobFixture(concurrencyPolicy="Forbid")
    world.look(10)
    world.look(15)
    world.end(0)
    world.look(1)
    assert world.names == [name(10), name(20)]
    assert world.said == ["SawCompletedJob"]


@pytest.mark.parametrize(("deadline", "made"), [(None, 1), (300, 0), (360, 1)])
def test_a_run_that_comes_too_late_is_left_out(deadline: int | None, made: int) -> None:
    world = CronJobFixture(startingDeadlineSeconds=deadline) if deadline else CronJobFixture()
    world.look(15.5)
    assert len(world.jobs) == made


def test_of_many_missed_runs_the_last_is_made_up_for() -> None:
    world = CronJobFixture("* * * * *")
    world.look(150.5)
    assert (world.names, world.said) == ([name(150)], ["TooManyMissedTimes"])


def test_the_last_missed_run_of_an_uneven_schedule_is_found() -> None:
    world = CronJobFixture("0,10 * * * *")
    world.look(185)
    assert world.names == [name(180)]


def test_a_suspended_one_starts_nothing_and_goes_on_where_time_is() -> None:
    world = CronJobFixture(suspend=True)
    assert world.look(30).requeue_at == float("inf")
    assert world.jobs == {}
    world.cron["spec"]["suspend"] = False
    world.look(5)
    assert world.names == [name(30)]


def test_old_jobs_are_forgotten() -> None:
    world = CronJobFixture(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for kind in ("Complete", "Failed", "Complete"):
        world.look(10)
        world.end(-1, kind)
    world.look(1)
    assert world.names == [name(30)]
    assert world.cron["status"]["lastSuccessfulTime"] == "2026-03-02T12:30:00Z"


def test_a_job_that_vanished_is_missed() -> None:
    world = CronJobFixture()
    world.look(10)
    world.look()
    world.jobs.clear()
    world.look(1)
    assert (world.said, world.active) == (["MissingJob"], [])


def test_a_job_whose_making_did_not_get_into_the_status_is_not_made_again() -> None:
    world = CronJobFixture()
    world.look(10)
    world.cron["status"] = {}
    plan = world.look(1)
    assert not any(isinstance(action, Create) for action in plan.actions)
    assert world.cron["status"]["lastScheduleTime"] == "2026-03-02T12:10:00Z"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "often"}, "UnparseableSchedule"),
        ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone"),
        ({"schedule": "0 0 31 2 *"}, "InvalidSchedule"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_starts(spec: Json, reason: str) -> None:
    world = CronJobFixture(**{"schedule": "* * * * *", **spec})
    world.look(10)
    assert (world.said, world.jobs) == ([reason], {})


def test_one_that_is_going_starts_nothing() -> None:
    world = CronJobFixture()
    world.cron["metadata"]["deletionTimestamp"] = timestamp(NOON)
    world.look(10)
    assert world.jobs == {}
