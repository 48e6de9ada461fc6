"""Our /metrics and kube-scheduler's: both schedule the same pods, and their metrics are compared by name.

docs/metrics.md lists the allowed differences, and is read here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.docs.pages import rows, words_in_code
from tests.e2e.client import ApiClient, Json
from tests.e2e.metrics_page import Page, differences, named, page
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler
from tests.e2e.workloads import hollow_nodes, placed, pod, pod_spec, unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = "docs/metrics.md"
SMALL = 60
"""Pods that just fit: enough that kube-scheduler, which samples them randomly, has timed plugins for some."""
_TRIES_PER_EVENT = 25
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SAME_VALUES = (
    ("scheduler_schedule_attempts_total", "result"),
    ("scheduler_pending_pods", "queue"),
    ("scheduler_queue_incoming_pods_total", "queue"),
    ("scheduler_cache_size", "type"),
    ("scheduler_preemption_goroutines_execution_total", "result"),
    ("scheduler_framework_extension_point_duration_seconds", "extension_point"),
)
WITHOUT_WORK = {"PreBind", "Permit", "PostBind", "Sign"}
"""Extension points that kube-scheduler times for every pod, and we only with work for a plugin."""
OF_GROUPS = {"incomplete", "pending"}
"""Queues of kube-scheduler for the pods of groups, which count in the other queues here."""
WAITING = {"NodeResourcesFit": 1, "SchedulingGates": 1}
"""Pods that are pending at the end, by rejecting plugin."""
Fetch = Callable[[], Awaitable[str]]


def names(heading: str) -> list[str]:
    """Return the metrics of a table."""
    return [words_in_code(row[0])[0] for row in rows(PAGE, heading)]


OTHERWISE = names("Metrics with another meaning here")
ABSENT = names("kube-scheduler's metrics that are missing")


async def test_every_kube_scheduler_metric_is_served_or_listed_as_missing(
    control_plane: Plane, real_control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    api = control_plane.api
    async with hollow_nodes(control_plane, namespace, 2, cpu="2"):
        async with real_control_plane.kube_scheduler(Configured(f"{namespace}-theirs").document()) as rival:
            theirs = await run_story(Story(api, namespace, f"{namespace}-theirs"), rival.metrics)
        async with scheduler(control_plane, Configured(f"{namespace}-ours"), tmp_path) as running:
            ours = await run_story(Story(api, namespace, f"{namespace}-ours"), lambda: running.text(api, "/metrics"))
    assert differences(theirs, ours) == {}
    assert sorted(name for name in theirs if name not in ours and not named(name, ABSENT)) == []
    assert sorted(name for name in ours if named(name, ABSENT)) == []
    assert [name for name in OTHERWISE if name not in ours] == []
    missing = {
        name: theirs[name].label_values(label) - ours[name].label_values(label) - WITHOUT_WORK - OF_GROUPS
        for name, label in SAME_VALUES
    }
    assert {name: values for name, values in missing.items() if values} == {}
    assert evaluated(theirs) - evaluated(ours) == set()
    assert waiting(theirs) == waiting(ours) == WAITING


def waiting(found: Page) -> dict[str, float]:
    """Return pending pods by rejecting plugin."""
    return {labels["plugin"]: value for labels, value in found["scheduler_unschedulable_pods"].values if value}


def evaluated(found: Page) -> set[tuple[str, str]]:
    """Return the plugins with counted evaluations, by extension point."""
    return {
        (labels["extension_point"], labels["plugin"]) for labels in found["scheduler_plugin_evaluation_total"].series
    }


class Story:
    """Bound pods, an unschedulable, a gated and a preempting one; deleted at the end."""

    def __init__(self, api: ApiClient, namespace: str, name: str) -> None:
        """`name` is the scheduler's."""
        self.api = api
        self.name = name
        self._pool = namespace
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    @asynccontextmanager
    async def happening(self) -> AsyncIterator[None]:
        """Run the story until the unschedulable and the gated pod are pending."""
        urgent = f"{self.name}-urgent"
        await self.api.create(CLASSES, {"metadata": {"name": urgent}, "value": 1000})
        for i in range(SMALL):
            await self._create(f"small-{i}", cpu="1m")
        await self._create("gated", schedulingGates=[{"name": "example.com/later"}])
        await self._create("big", cpu="64")
        await self._create("filler-0", cpu="1500m")
        await self._create("filler-1", cpu="1500m")
        await self.api.until(self._pods, lambda found: len(placed(found)) == SMALL + 2)
        await self.api.until(f"{self._pods}/big", unscheduled)
        await self._create("urgent", cpu="1", priorityClassName=urgent)
        await self.api.until(f"{self._pods}/urgent", lambda found: found["spec"].get("nodeName"))
        yield
        await self.api.delete(self._pods, gracePeriodSeconds=0)
        await self.api.until(self._pods, lambda found: not found["items"])
        await self.api.delete(f"{CLASSES}/{urgent}")

    async def delete_small_pods(self) -> AsyncIterator[None]:
        """Delete one small pod after the other."""
        for i in range(SMALL):
            await self.api.delete(f"{self._pods}/small-{i}", gracePeriodSeconds=0)
            yield

    async def _create(self, name: str, cpu: str = "1m", **fields: object) -> Json:
        return await self.api.create(self._pods, pod(name, pod_spec(self.name, self._pool, cpu, **fields)))


async def run_story(story: Story, fetch: Fetch) -> Page:
    """Return a scheduler's page after the story."""
    async with story.happening():
        return await settled(fetch, story.delete_small_pods())


async def settled(fetch: Fetch, events: AsyncIterator[None], seconds: float = 60.0) -> Page:
    """Wait until the page has every pod's outcome, since some are counted later; return it.

    `events` are deletions, for which a hint is called unless the unschedulable pod is just being retried.
    """
    deadline = time.monotonic() + seconds
    for tries in count(1):
        found = page(await fetch())
        if is_settled(found):
            break
        if tries % _TRIES_PER_EVENT == 0:
            await anext(events, None)
        late = [name for name in LATE if name not in found or not found[name].series]
        attempts = found.get("scheduler_schedule_attempts_total")
        assert time.monotonic() < deadline, f"not settled: {late or attempts}, {waiting(found)}"
        await asyncio.sleep(0.2)
    return found


LATE = (
    "scheduler_schedule_attempts_total",
    "scheduler_plugin_execution_duration_seconds",
    "scheduler_queueing_hint_execution_duration_seconds",
)
"""Series that kube-scheduler updates a second later."""


def is_settled(found: Page) -> bool:
    """Return True if all pods that fit are counted as bound, the others as pending, and plugins were timed."""
    if any(name not in found or not found[name].series for name in LATE):
        return False
    attempts = found["scheduler_schedule_attempts_total"].values
    scheduled = sum(value for labels, value in attempts if labels["result"] == "scheduled")
    return scheduled == SMALL + 3 and waiting(found) == WAITING
