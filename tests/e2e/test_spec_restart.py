"""Kubernetes' DaemonRestart spec: pods are placed after the scheduler restarts.

docs/specs.md maps specs to tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.plane import Plane
from tests.e2e.story import CONTENDERS, contending, new_story

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("contender", CONTENDERS)
@pytest.mark.usefixtures("real_control_plane")
async def test_pods_are_placed_after_a_restart(control_plane: Plane, tmp_path: Path, contender: str) -> None:
    labels = {"app": "web"}
    async with new_story(control_plane, contender) as story:
        for node in ("a", "b"):
            await story.node(node, cpu="2")
        controllers = story.at("v1", "replicationcontrollers")
        template = {"metadata": {"labels": labels}, "spec": story.spec({"cpu": "1"})}
        body = {"replicas": 2, "selector": labels, "template": template}
        async with contending(contender, control_plane, tmp_path):
            await story.api.create(controllers, {"metadata": {"name": "web"}, "spec": body})
            assert await story.places(2) == {"a": 1, "b": 1}
        await story.api.patch(f"{controllers}/web", {"spec": {"replicas": 4}})
        await story.until(f"{controllers}/web", lambda found: found["status"]["replicas"] == 4)
        async with contending(contender, control_plane, tmp_path):
            assert await story.places(4) == {"a": 2, "b": 2}
