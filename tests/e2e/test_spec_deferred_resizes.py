"""Kubernetes' integration tests of preemption for deferred in-place resizes, for both schedulers.

They need an alpha feature gate, so this module has a control plane with it. The nodes have no kubelet that resizes
pods: the test writes the status that a kubelet writes when it defers a resize.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane.arguments import Options
from tests.e2e.plane import REAL, Plane, real
from tests.e2e.story import CONTENDERS, Story, condition, contending, new_story

pytestmark = pytest.mark.asyncio(loop_scope="session")

GATES = "--feature-gates=InPlacePodVerticalScalingSchedulerPreemption=true"
QUIET_SECONDS = 3.0
"""Seconds during which nothing must happen. A pod that is evicted in vain is evicted within one."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gated_plane(request: pytest.FixtureRequest) -> AsyncIterator[Plane]:
    """The real control plane with the feature gate."""
    if request.config.getoption("--control-plane", default="") != REAL:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    extra = dict.fromkeys(("kube-apiserver", "kube-scheduler"), (GATES,))
    async with real(request.config, Options(extra=extra)) as plane:
        yield plane


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CONTENDERS)
async def gated_contender(
    request: pytest.FixtureRequest, gated_plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """Each of the two schedulers in turn."""
    name: str = request.param
    async with contending(name, gated_plane, tmp_path_factory.mktemp(name), [GATES]):
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def story(gated_contender: str, gated_plane: Plane) -> AsyncIterator[Story]:
    """A story for the current scheduler."""
    async with new_story(gated_plane, gated_contender) as created:
        yield created


async def full_node(story: Story, **fields: object) -> None:
    """Create a node of 4 cores with two pods: `low` has 2 cores, `resized` has 1 and the higher priority."""
    await story.node("a")
    low, high = await story.priority("low", 1), await story.priority("high", 1000, **fields)
    for name, cores, priority in (("low", "2", low), ("resized", "1", high)):
        await story.pod(name, story.spec({"cpu": cores}, priorityClassName=priority))
        assert await story.bound(name) == "a"
    await story.until(f"{story.pods}/resized", lambda found: found["status"].get("phase") == "Running")


async def defer_resize(story: Story, cores: str, allocated: str = "1") -> None:
    """Resize the pod, and write the status of a kubelet that has no room for that.

    The API server admits resizes only of containers with `resources` in their status, as kubelets report them.
    """
    pod = await story.api.get(f"{story.pods}/resized")
    has = {"requests": {"cpu": allocated}, "limits": {"cpu": allocated}}
    container = {**pod["status"]["containerStatuses"][0], "allocatedResources": has["requests"], "resources": has}
    await story.api.patch(f"{story.pods}/resized/status", {"status": {"containerStatuses": [container]}})
    resources = {"requests": {"cpu": cores}, "limits": {"cpu": cores}}
    containers = [{"name": container["name"], "resources": resources}]
    await story.api.patch(f"{story.pods}/resized/resize", {"spec": {"containers": containers}}, "strategic")
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "Node didn't have room"}
    conditions = [each for each in pod["status"]["conditions"] if each["type"] != pending["type"]]
    await story.api.patch(f"{story.pods}/resized/status", {"status": {"conditions": [*conditions, pending]}})


async def assert_running_as_before(story: Story) -> None:
    """Check that the scheduler has written nothing about the resized pod."""
    pod = await story.api.get(f"{story.pods}/resized")
    assert condition(pod, "PodScheduled")["status"] == "True"
    assert "nominatedNodeName" not in pod["status"]
    found = await story.api.get(story.at("events.k8s.io/v1", "events"), fieldSelector="regarding.name=resized")
    assert {event["reason"] for event in found["items"]} <= {"Scheduled"}


async def assert_quiet(story: Story, names: set[str]) -> None:
    """Check that no pod is evicted for a while."""
    await asyncio.sleep(QUIET_SECONDS)
    found = await story.api.get(story.pods)
    assert {item["metadata"]["name"] for item in found["items"]} == names
    assert not any("deletionTimestamp" in item["metadata"] for item in found["items"])


async def test_deferred_resize_preempts_a_pod_of_lower_priority(story: Story) -> None:
    await full_node(story)
    resized = await story.api.get(f"{story.pods}/resized")
    await defer_resize(story, "3")
    await story.exactly({"resized"})
    [event] = await story.events("low", "Preempted")
    assert event["note"] == f"Preempted by pod {resized['metadata']['uid']} on node {story.full_name('a')}"
    await assert_running_as_before(story)


async def test_resize_that_fits_preempts_nothing(story: Story) -> None:
    await full_node(story)
    await defer_resize(story, "2")
    await assert_quiet(story, {"low", "resized"})
    await assert_running_as_before(story)


async def test_resize_of_a_pod_that_never_preempts_waits(story: Story) -> None:
    await full_node(story, preemptionPolicy="Never")
    await defer_resize(story, "3")
    await assert_quiet(story, {"low", "resized"})
    await assert_running_as_before(story)


async def test_node_without_resize_preemption_keeps_its_pods_until_it_is_enabled(story: Story) -> None:
    await full_node(story)
    await story.change_node("a", podPreemptionPolicy={"disableResizePreemption": ["example.com/owner"]})
    await defer_resize(story, "3")
    await assert_quiet(story, {"low", "resized"})
    await story.change_node("a", podPreemptionPolicy=None)
    await story.exactly({"resized"})
    await assert_running_as_before(story)
