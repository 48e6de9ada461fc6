"""Kubernetes' specs of binding conditions that are not met in time; the time is short here.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.client import Json
from tests.e2e.devices import Driver, exactly
from tests.e2e.plane import Plane
from tests.e2e.story import CONTENDERS, Story, condition, contending, new_story
from tests.e2e.workloads import unscheduled

pytestmark = pytest.mark.asyncio(loop_scope="session")

ARGS = [{"name": "DynamicResources", "args": {"bindingTimeout": "6s"}}]
FABRIC: Json = {
    "name": "fabric",
    "bindingConditions": ["example.com/ready"],
    "bindingFailureConditions": ["example.com/failed"],
}
TIMEOUT = "binding timeout"


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CONTENDERS)
async def impatient(
    request: pytest.FixtureRequest, control_plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """Each of the two schedulers in turn, with a short bindingTimeout."""
    if control_plane.real is None:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    name: str = request.param
    async with contending(name, control_plane, tmp_path_factory.mktemp(name), args=ARGS):
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def story(impatient: str, control_plane: Plane) -> AsyncIterator[Story]:
    """A story for the current scheduler."""
    async with new_story(control_plane, impatient) as created:
        yield created


async def waiting_pod(story: Story) -> Driver:
    """Create a pod whose only device never becomes ready."""
    driver = Driver(story)
    await story.node("a")
    await driver.publish("a", FABRIC, pool="attached")
    await driver.claim("c", exactly(await driver.device_class()))
    await driver.pod("p", "c")
    assert await driver.results("c") == [("r", "attached", "fabric")]
    return driver


async def test_pod_is_not_bound_after_the_timeout_of_its_device(story: Story) -> None:
    await waiting_pod(story)
    found = await story.api.until(f"{story.pods}/p", lambda found: TIMEOUT in unscheduled(found))
    assert "nodeName" not in found["spec"]
    assert condition(found, "PodScheduled")["reason"] == "SchedulerError"


async def test_pod_gets_another_device_after_the_timeout(story: Story) -> None:
    driver = await waiting_pod(story)
    await driver.publish("a", "local", pool="plain")
    await story.api.until(f"{story.pods}/p", lambda found: TIMEOUT in unscheduled(found) or "nodeName" in found["spec"])
    assert await story.bound("p") == "a"
    assert await driver.results("c") == [("r", "plain", "local")]
