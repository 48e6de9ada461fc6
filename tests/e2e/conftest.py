"""The fixtures of the end-to-end suite; `pytest tests/e2e --control-plane=real` is run by `make e2e`.

The plane lives as long as the session, and so must the event loop of every test that uses it. Each module sets:

    pytestmark = pytest.mark.asyncio(loop_scope="session")

and async fixtures are made with `@pytest_asyncio.fixture(loop_scope="session")`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane.cluster import ControlPlane
from tests.e2e import batch
from tests.e2e.plane import EMBEDDED, Plane, new_namespace, opened
from tests.e2e.scenario import Scenario, scenario
from tests.e2e.scheduler import scheduler_with
from tests.e2e.story import CONTENDERS, Story, contending, new_story


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def control_plane(request: pytest.FixtureRequest) -> AsyncIterator[Plane]:
    """The cluster of this session."""
    target = request.config.getoption("--control-plane", default=EMBEDDED)
    async with opened(target, request.config) as plane:
        yield plane


@pytest.fixture
def real_control_plane(control_plane: Plane) -> ControlPlane:
    """The real control plane; tests with this fixture are skipped on the embedded cluster."""
    if control_plane.real is None:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    return control_plane.real


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(control_plane: Plane) -> AsyncIterator[str]:
    """The test's namespace, deleted afterwards with its contents."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await new_namespace(control_plane.api, name)
    yield name
    await control_plane.api.delete(f"/api/v1/namespaces/{name}")


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CONTENDERS)
async def contender(
    request: pytest.FixtureRequest, control_plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[str]:
    """Each of the two schedulers in turn, as the only one of the real control plane, with the module's PLUGIN_ARGS."""
    if control_plane.real is None:
        pytest.skip("needs the real control plane: pytest tests/e2e --control-plane=real")
    name: str = request.param
    args = getattr(request.module, "PLUGIN_ARGS", ())
    async with contending(name, control_plane, tmp_path_factory.mktemp(name), args=args):
        yield name


@pytest_asyncio.fixture(loop_scope="session")
async def story(contender: str, control_plane: Plane) -> AsyncIterator[Story]:
    """A story for the current scheduler."""
    async with new_story(control_plane, contender) as created:
        yield created


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def batch_scheduler(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Plane]:
    """A cluster with pod groups of every API and a scheduler with config/batch.yaml, for a module.

    The real control plane is another one than the session's, with the feature gates of the native PodGroup.
    """
    async with (
        batch.batch_plane(request.config) as plane,
        scheduler_with(plane, batch.CONFIG, tmp_path_factory.mktemp("scheduler")),
    ):
        yield plane


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(batch_scheduler: Plane) -> AsyncIterator[Scenario]:
    """A cluster without nodes that has the scheduler for batch work, for the test alone."""
    async with batch.new_test_namespace(batch_scheduler) as created, scenario(created) as cluster:
        yield cluster
