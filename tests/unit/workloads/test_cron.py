"""CronJob controller: schedules, Jobs to start, and cleanup of earlier Jobs, in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pyscheduler.embedded.client import JOBS
from pyscheduler.embedded.objects import timestamp
from pyscheduler.embedded.workloads import cron
from pyscheduler.embedded.workloads.actions import Create, Delete, Plan, RecordAction
from pyscheduler.embedded.workloads.cron.schedule import Every, ScheduleError, parse
from tests.unit.workloads.builders import Json, status_of


def at(text: str) -> float:
    """Return the seconds since 1970 of a time in UTC: `2026-01-31 10:00`."""
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
def test_next_time_of_a_schedule(text: str, after: str, expected: str) -> None:
    assert parse(text).next_after(at(after)) == at(expected)


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("0 0 13 * 5", "", "2026-01-01 00:00", "2026-01-02 00:00, 2026-01-09 00:00, 2026-01-13 00:00"),
        ("0 0 */2 * 1", "", "2026-01-01 00:00", "2026-01-03 00:00, 2026-01-05 00:00, 2026-01-07 00:00"),
        ("0 0 */1 * 1", "", "2026-01-01 00:00", "2026-01-05 00:00, 2026-01-12 00:00, 2026-01-19 00:00"),
        ("0 0 ? * 1", "", "2026-01-01 00:00", "2026-01-05 00:00, 2026-01-12 00:00, 2026-01-19 00:00"),
        ("0 0 1-31 * 1", "", "2026-01-01 00:00", "2026-01-02 00:00, 2026-01-03 00:00, 2026-01-04 00:00"),
        ("0 0 13 * ?", "", "2026-01-01 00:00", "2026-01-13 00:00, 2026-02-13 00:00, 2026-03-13 00:00"),
        ("0 0 13 * 0-6", "", "2026-01-01 00:00", "2026-01-02 00:00, 2026-01-03 00:00, 2026-01-04 00:00"),
        ("0 0 13 * 1,*", "", "2026-01-01 00:00", "2026-01-13 00:00, 2026-02-13 00:00, 2026-03-13 00:00"),
        ("0 0 * * */3", "", "2026-01-01 00:00", "2026-01-03 00:00, 2026-01-04 00:00, 2026-01-07 00:00"),
        ("0 0 * * 1/3", "", "2026-01-01 00:00", "2026-01-05 00:00, 2026-01-08 00:00, 2026-01-12 00:00"),
        ("0 0 * * 6-6/2", "", "2026-01-01 00:00", "2026-01-03 00:00, 2026-01-10 00:00, 2026-01-17 00:00"),
        ("50/5 9-17/8 * * *", "", "2026-01-01 00:00", "2026-01-01 09:50, 2026-01-01 09:55, 2026-01-01 17:50"),
        ("0 0 1 jan-MAR *", "", "2026-01-01 00:00", "2026-02-01 00:00, 2026-03-01 00:00, 2027-01-01 00:00"),
        ("0 0 29 2 *", "", "2026-01-01 00:00", "2028-02-29 00:00, 2032-02-29 00:00, 2036-02-29 00:00"),
        ("0 0 30,31 2 *", "", "2026-01-01 00:00", "never"),
        ("0 0 31 2 1", "", "2026-01-31 00:00", "2026-02-02 00:00, 2026-02-09 00:00, 2026-02-16 00:00"),
        (",5,, 0 +1 * *", "", "2026-01-01 00:00", "2026-01-01 00:05, 2026-02-01 00:05, 2026-03-01 00:05"),
        ("*-5 0 1 1 *", "", "2026-01-01 00:00", "2026-01-01 00:01, 2026-01-01 00:02, 2026-01-01 00:03"),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00", "2026-03-28 01:30, 2026-03-30 00:30, 2026-03-31 00:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 00:00", "2026-10-24 00:30, 2026-10-25 00:30, 2026-10-25 01:30"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25 00:00", "2026-10-25 00:30, 2026-10-25 01:00, 2026-10-25 01:30"),
        ("30 * * * *", "Europe/Berlin", "2026-03-29 00:00", "2026-03-29 00:30, 2026-03-29 01:30, 2026-03-29 02:30"),
        ("30 * * * *", "America/New_York", "2026-11-01 04:00", "2026-11-01 04:30, 2026-11-01 05:30, 2026-11-01 06:30"),
        ("0 */2 * * *", "America/New_York", "2026-03-08 04:00", "2026-03-08 05:00, 2026-03-08 08:00, 2026-03-08 10:00"),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 00:00", "2018-11-03 03:00, 2018-11-05 02:00, 2018-11-06 02:00"),
        ("0 0 * * *", "America/Havana", "2025-03-08 00:00", "2025-03-08 05:00, 2025-03-10 04:00, 2025-03-11 04:00"),
        ("0 * * * *", "America/Havana", "2025-03-09 03:30", "2025-03-09 04:00, 2025-03-09 05:00, 2025-03-09 06:00"),
        ("0 0 * * *", "America/Havana", "2025-11-01 00:00", "2025-11-01 04:00, 2025-11-02 04:00, 2025-11-02 05:00"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-28 22:30", "2011-12-29 22:00, 2011-12-30 22:00, 2011-12-31 22:00"),
        ("0 9 1 * *", "Asia/Kolkata", "2026-01-15 00:00", "2026-02-01 03:30, 2026-03-01 03:30, 2026-04-01 03:30"),
    ],
)
def test_next_times_equal_those_of_robfig_cron(text: str, zone: str, after: str, expected: str) -> None:
    """Compare with times recorded from ParseStandard and Next of robfig/cron v3.0.1, in UTC."""
    schedule, moment = parse(text, zone), at(after)
    for time in expected.split(", "):
        moment = schedule.next_after(moment)
        assert moment == (float("inf") if time == "never" else at(time))


@pytest.mark.parametrize("text", ["0 0 L * *", "0 0 LW * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * 1#2", "H * * * *"])
def test_extensions_of_other_cron_parsers_are_rejected(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse(text)


def test_schedule_without_match_never_runs() -> None:
    assert parse("59 23 31 2 *").next_after(0.0) == float("inf")


def test_every_is_a_fixed_interval() -> None:
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
        ("1-2-3 * * * *", "", "minute: '1-2-3' is not a number, a range or a step"),
        ("1/2/3 * * * *", "", "minute: '1/2/3' is not a number, a range or a step"),
        ("-3 * * * *", "", "minute: '-3' is not a number, a range or a step"),
        (", * * * *", "", "minute: ',' is empty"),
        ("@soon", "", "unrecognized descriptor: @soon"),
        ("@every soon", "", "not a duration"),
        ("TZ=UTC * * * * *", "", "timeZone"),
        ("* * * * *", "Mars/Olympus", "unknown time zone Mars/Olympus"),
        ("* * * * *", "../etc/passwd", "unknown time zone"),
    ],
)
def test_malformed_schedule_raises_with_the_invalid_part(text: str, zone: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words.replace("*", r"\*")):
        parse(text, zone)


def test_time_zone_shifts_runs_and_skips_times_that_do_not_exist() -> None:
    berlin = parse("30 2 * * *", "Europe/Berlin")
    assert berlin.next_after(at("2026-01-01 12:00")) == at("2026-01-02 01:30")
    assert berlin.next_after(at("2026-03-28 12:00")) == at("2026-03-30 00:30"), "on the 29th there is no 02:30"
    autumn = berlin.next_after(at("2026-10-24 12:00"))
    assert (autumn, berlin.next_after(autumn)) == (at("2026-10-25 00:30"), at("2026-10-25 01:30"))


class CronJobFixture:
    """A CronJob, its Jobs, and a clock that the test advances."""

    def __init__(self, schedule: str = "*/10 * * * *", **spec: Any) -> None:
        self.now, self.events = NOON, [""]
        meta = {"name": "c", "namespace": "default", "uid": "c", "creationTimestamp": timestamp(NOON)}
        template = {"metadata": {"labels": {"app": "c"}}, "spec": {"template": {}}}
        limits = {"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}
        self.cron: Json = {"kind": "CronJob", "metadata": meta, "status": {}}
        self.cron["spec"] = {"schedule": schedule, "jobTemplate": template, **limits, **spec}
        self.jobs: dict[str, Json] = {}

    def sync(self, minutes: float = 0) -> Plan:
        """Advance the clock, reconcile and apply the plan."""
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
        self.events = [action.reason for action in plan.actions if isinstance(action, RecordAction)]
        self.cron["status"] = status_of(plan, self.cron["status"])
        return plan

    def end(self, number: int, kind: str = "Complete") -> None:
        """Finish Job `number`, the oldest being 0."""
        status = self.jobs[self.names[number]]["status"]
        status |= {"conditions": [{"type": kind, "status": "True"}], "completionTime": timestamp(self.now)}

    @property
    def names(self) -> list[str]:
        return sorted(self.jobs)

    @property
    def active(self) -> list[str]:
        return [reference["name"] for reference in self.cron["status"].get("active", [])]


def name(minutes: int) -> str:
    """Return the name of the Job of the run `minutes` after noon."""
    return f"c-{int(NOON) // 60 + minutes}"


def test_job_is_created_once_at_its_scheduled_time() -> None:
    fixture = CronJobFixture()
    assert fixture.sync().requeue_at == NOON + 600.1
    assert fixture.jobs == {}
    plan = fixture.sync(10)
    assert (fixture.names, plan.requeue_at) == ([name(10)], NOON + 1200.1)
    assert fixture.cron["status"]["lastScheduleTime"] == "2026-03-02T12:10:00Z"
    metadata = fixture.jobs[name(10)]["metadata"]
    assert metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-02T12:10:00Z"
    assert (metadata["labels"], metadata["ownerReferences"][0]["kind"]) == ({"app": "c"}, "CronJob")
    fixture.sync(1)
    assert (fixture.names, fixture.active) == ([name(10)], [name(10)])


def test_scheduled_timestamp_is_in_the_time_zone() -> None:
    fixture = CronJobFixture(timeZone="Asia/Kolkata")
    fixture.sync(10)
    annotations = fixture.jobs[fixture.names[0]]["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] == "2026-03-02T17:40:00+05:30"


@pytest.mark.parametrize(
    ("policy", "remaining", "events"),
    [
        ("Allow", [name(10), name(20)], []),
        ("Forbid", [name(10)], ["JobAlreadyActive"]),
        ("Replace", [name(20)], []),
    ],
)
def test_concurrency_policy(policy: str, remaining: list[str], events: list[str]) -> None:
    fixture = CronJobFixture(concurrencyPolicy=policy)
    fixture.sync(10)
    fixture.sync(10)
    assert (fixture.names, fixture.events) == (remaining, events)
    fixture.sync()
    assert fixture.active == remaining


def test_forbid_starts_the_missed_run_once_the_active_job_has_finished() -> None:
    fixture = CronJobFixture(concurrencyPolicy="Forbid")
    fixture.sync(10)
    fixture.sync(15)
    fixture.end(0)
    fixture.sync(1)
    assert fixture.names == [name(10), name(20)]
    assert fixture.events == ["SawCompletedJob"]


@pytest.mark.parametrize(("deadline", "count"), [(None, 1), (300, 0), (360, 1)])
def test_run_past_its_starting_deadline_is_skipped(deadline: int | None, count: int) -> None:
    fixture = CronJobFixture(startingDeadlineSeconds=deadline) if deadline else CronJobFixture()
    fixture.sync(15.5)
    assert len(fixture.jobs) == count


def test_only_the_last_of_many_missed_runs_is_started() -> None:
    fixture = CronJobFixture("* * * * *")
    fixture.sync(150.5)
    assert (fixture.names, fixture.events) == ([name(150)], ["TooManyMissedTimes"])


def test_last_missed_run_of_an_uneven_schedule_is_started() -> None:
    fixture = CronJobFixture("0,10 * * * *")
    fixture.sync(185)
    assert fixture.names == [name(180)]


def test_suspended_cronjob_starts_nothing_until_resumed() -> None:
    fixture = CronJobFixture(suspend=True)
    assert fixture.sync(30).requeue_at == float("inf")
    assert fixture.jobs == {}
    fixture.cron["spec"]["suspend"] = False
    fixture.sync(5)
    assert fixture.names == [name(30)]


def test_finished_jobs_beyond_the_history_limit_are_deleted() -> None:
    fixture = CronJobFixture(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for kind in ("Complete", "Failed", "Complete"):
        fixture.sync(10)
        fixture.end(-1, kind)
    fixture.sync(1)
    assert fixture.names == [name(30)]
    assert fixture.cron["status"]["lastSuccessfulTime"] == "2026-03-02T12:30:00Z"


def test_missing_active_job_is_reported() -> None:
    fixture = CronJobFixture()
    fixture.sync(10)
    fixture.sync()
    fixture.jobs.clear()
    fixture.sync(1)
    assert (fixture.events, fixture.active) == (["MissingJob"], [])


def test_job_is_not_created_again_if_the_status_update_failed() -> None:
    fixture = CronJobFixture()
    fixture.sync(10)
    fixture.cron["status"] = {}
    plan = fixture.sync(1)
    assert not any(isinstance(action, Create) for action in plan.actions)
    assert fixture.cron["status"]["lastScheduleTime"] == "2026-03-02T12:10:00Z"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "often"}, "UnparseableSchedule"),
        ({"timeZone": "Mars/Olympus"}, "UnknownTimeZone"),
        ({"schedule": "0 0 31 2 *"}, "InvalidSchedule"),
    ],
)
def test_invalid_cronjob_is_reported_and_starts_nothing(spec: Json, reason: str) -> None:
    fixture = CronJobFixture(**{"schedule": "* * * * *", **spec})
    fixture.sync(10)
    assert (fixture.events, fixture.jobs) == ([reason], {})


def test_cronjob_in_deletion_starts_nothing() -> None:
    fixture = CronJobFixture()
    fixture.cron["metadata"]["deletionTimestamp"] = timestamp(NOON)
    fixture.sync(10)
    assert fixture.jobs == {}
