"""CronJobs with each concurrency policy, on both clusters.

No test waits for the next full minute: a run is made due by a schedule with a time that has just passed and a status
with a last run long before.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from pyscheduler.embedded.objects import timestamp
from tests.e2e.client import Json
from tests.e2e.jobs import SECONDS, Bench, ago, crew_with_scheduler, endless, in_phase, suspended
from tests.e2e.plane import Plane

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def placing(control_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Two nodes and a scheduler for the whole module."""
    async with crew_with_scheduler(control_plane, "cron", tmp_path_factory.mktemp("cron"), nodes=2):
        yield


@pytest.fixture
def bench(control_plane: Plane, namespace: str) -> Bench:
    return Bench(control_plane.api, namespace)


async def start(bench: Bench, policy: str) -> str:
    """Create the example of that policy, suspended, with a last run an hour ago; return its name."""

    def held(document: Json) -> None:
        suspended(document)
        endless(document)

    await bench.apply(f"cronjob-{policy.lower()}.yaml", held)
    await bench.hold(f"cron-{policy.lower()}")
    return f"cron-{policy.lower()}"


async def finish(bench: Bench, job: str) -> Json:
    """End the Job's run and wait until it is Complete; return it."""
    await bench.end(await bench.pods(job, in_phase("Running", 1)))
    return await bench.complete(job)


async def jobs(bench: Bench, *names: str) -> list[Json]:
    """Wait until exactly these Jobs exist; return them."""
    found = await bench.api.until(
        bench.at("Job"),
        lambda found: sorted(job["metadata"]["name"] for job in found["items"]) == sorted(names),
        SECONDS,
    )
    items: list[Json] = found["items"]
    return items


async def active(bench: Bench, name: str, *names: str) -> Json:
    """Wait until these Jobs are active in the CronJob's status; return it."""

    def holds(found: Json) -> bool:
        return sorted(ref["name"] for ref in found["status"].get("active", ())) == sorted(names)

    return await bench.api.until(bench.at("CronJob", name), holds, SECONDS)


async def test_allow_lets_runs_overlap(bench: Bench) -> None:
    name = await start(bench, "Allow")
    first = await bench.due(name, 4)
    await active(bench, name, first)  # the controller writes that after the Job, and never again once we were quicker
    second = await bench.due(name, 2)
    made = await jobs(bench, first, second)
    await active(bench, name, first, second)
    owner = made[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("CronJob", name, True)
    assert "batch.kubernetes.io/cronjob-scheduled-timestamp" in made[0]["metadata"]["annotations"]
    for job in (first, second):
        await finish(bench, job)
    # successfulJobsHistoryLimit is 1: the older one goes.
    await jobs(bench, second)
    over = await active(bench, name)
    assert over["status"]["lastScheduleTime"] == ago_of(second, name)
    assert "lastSuccessfulTime" in over["status"]
    reasons = {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
    assert await bench.reasons("CronJob", name, *reasons) == reasons


def ago_of(job: str, name: str) -> str:
    """Return the time in a Job's name."""
    return timestamp(int(job.removeprefix(f"{name}-")) * 60)


async def test_forbid_waits_for_the_previous_run(bench: Bench) -> None:
    name = await start(bench, "Forbid")
    first = await bench.due(name, 4)
    await active(bench, name, first)
    second = await bench.due(name, 2)
    await bench.reasons("CronJob", name, "JobAlreadyActive")
    await jobs(bench, first)
    done = await finish(bench, first)
    later = await bench.job(second, lambda job: job.get("status", {}).get("startTime"))
    assert later["status"]["startTime"] >= done["status"]["completionTime"]


async def test_replace_deletes_the_previous_run(bench: Bench) -> None:
    name = await start(bench, "Replace")
    first = await bench.due(name, 4)
    await active(bench, name, first)
    second = await bench.due(name, 2)
    await jobs(bench, second)
    await active(bench, name, second)
    await finish(bench, second)
    reasons = {"SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"}
    assert await bench.reasons("CronJob", name, *reasons) == reasons
    await bench.pods(holds=lambda pods: len(pods) == 1)


async def test_late_and_suspended_runs_are_skipped(bench: Bench) -> None:
    name = await start(bench, "Allow")
    await bench.due(name, 12)
    await bench.patch("CronJob", name, {"spec": {"suspend": True}})
    schedule, _ = ago(3)
    await bench.patch("CronJob", name, {"spec": {"schedule": schedule}})
    await bench.patch("CronJob", name, {"spec": {"failedJobsHistoryLimit": 2}})
    other = await start(bench, "Replace")
    await jobs(bench, await bench.due(other, 2))
