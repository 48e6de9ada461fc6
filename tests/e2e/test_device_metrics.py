"""Metrics of claims and binding conditions: both schedulers run the same story, and their values are compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.devices import Driver, exactly
from tests.e2e.metrics_page import Page, differences, page
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, scheduler_with
from tests.e2e.story import CONTENDERS, KUBE_SCHEDULER, NAME, USER, Story, new_story

pytestmark = pytest.mark.asyncio(loop_scope="session")

CREATES = "dynamic_resource_allocation_resourceclaim_creates_total"
ALLOCATIONS = "scheduler_dra_bindingconditions_allocations_total"
WAITS = "scheduler_dra_bindingconditions_wait_duration_seconds"
READY, FAILED = "example.com/ready", "example.com/failed"
Fetch = Callable[[], Awaitable[str]]


@asynccontextmanager
async def running(contender: str, plane: Plane, real: ControlPlane, folder: Path) -> AsyncIterator[Fetch]:
    """Run a scheduler; yield a function that returns its metrics."""
    document = Configured(NAME).document()
    if contender == KUBE_SCHEDULER:
        async with real.kube_scheduler(document) as rival:
            yield rival.metrics
        return
    config = folder / "config.yaml"
    config.write_text(document)
    async with scheduler_with(plane, config, folder, kubeconfig=real.kubeconfig_for(USER)) as ours:
        yield lambda: ours.text(plane.api, "/metrics")


async def bind_pods(story: Story) -> None:
    """Create a pod with an extended resource, and one with a device that fails once before it is ready."""
    driver = Driver(story)
    await story.node("a")
    resource = f"{story.namespace}.example.com/gpu"
    await driver.publish("a", "gpu", pool="plain")
    await driver.device_class(
        "plain", 'device.attributes["example.com"].?fabric.orValue(false) == false', extendedResourceName=resource
    )
    await story.pod("p1", story.spec({resource: "1"}))
    assert await story.bound("p1") == "a"
    fabric = {
        "name": "fabric",
        "attributes": {"example.com/fabric": {"bool": True}},
        "bindingConditions": [READY],
        "bindingFailureConditions": [FAILED],
    }
    await driver.publish("a", fabric, pool="attached")
    await driver.claim("c", exactly(await driver.device_class()))
    await driver.pod("p2", "c")
    await driver.report("c", FAILED)
    await driver.allocated_again("c")
    await driver.report("c", READY)
    assert await story.bound("p2") == "a"


async def test_metrics_of_devices_have_kube_schedulers_values(
    control_plane: Plane, real_control_plane: ControlPlane, tmp_path: Path
) -> None:
    pages: dict[str, Page] = {}
    for contender in CONTENDERS:
        async with (
            running(contender, control_plane, real_control_plane, tmp_path) as fetch,
            new_story(control_plane, contender) as story,
        ):
            await bind_pods(story)
            pages[contender] = page(await fetch())
    theirs, ours = ({name: found[name] for name in (CREATES, ALLOCATIONS, WAITS)} for found in pages.values())
    assert differences(theirs, ours) == {}
    for name in (CREATES, ALLOCATIONS):
        assert values(ours, name) == values(theirs, name), name
    assert ours[WAITS].label_values("status") == theirs[WAITS].label_values("status") == {"failure", "success"}


def values(found: Page, name: str) -> dict[tuple[str, ...], float]:
    """Return the values of a counter by labels without the driver."""
    return {
        tuple(value for label, value in sorted(labels.items()) if label != "driver"): value
        for labels, value in found[name].values
    }
