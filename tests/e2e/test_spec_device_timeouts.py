"""Kubernetes' specs of binding conditions that are not met in time; the time is short here.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

import pytest

from tests.e2e.client import Json
from tests.e2e.devices import Driver, exactly
from tests.e2e.story import Story, condition
from tests.e2e.workloads import unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLUGIN_ARGS = [{"name": "DynamicResources", "args": {"bindingTimeout": "6s"}}]
FABRIC: Json = {
    "name": "fabric",
    "bindingConditions": ["example.com/ready"],
    "bindingFailureConditions": ["example.com/failed"],
}
TIMEOUT = "binding timeout"


async def waiting_pod(story: Story) -> Driver:
    """Create a pod with one device, which never becomes ready."""
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", FABRIC, pool="attached")
    await driver.claim("c", exactly(await driver.device_class()))
    await driver.pod("p", "c")
    assert await driver.results("c") == [("r", "attached", "fabric")]
    return driver


async def test_pod_is_not_bound_after_the_timeout_of_its_device(story: Story) -> None:
    await waiting_pod(story)
    found = await story.until(f"{story.pods}/p", lambda found: TIMEOUT in unscheduled(found))
    assert "nodeName" not in found["spec"]
    assert condition(found, "PodScheduled")["reason"] == "SchedulerError"


async def test_pod_gets_another_device_after_the_timeout(story: Story) -> None:
    driver = await waiting_pod(story)
    await driver.publish("a", "local", pool="plain")
    await story.until(f"{story.pods}/p", lambda found: TIMEOUT in unscheduled(found) or "nodeName" in found["spec"])
    assert await story.bound("p") == "a"
    assert await driver.results("c") == [("r", "plain", "local")]
