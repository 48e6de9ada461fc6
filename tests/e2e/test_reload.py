"""The configuration file changes while pods arrive: valid files apply, invalid ones are rejected, no pod is lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import yaml

from tests.e2e.client import Json
from tests.e2e.plane import Plane
from tests.e2e.scheduler import Configured, SchedulerProcess, scheduler_with
from tests.e2e.test_extenders import extender
from tests.e2e.workloads import deployment, hollow_nodes, placed, pod, pod_spec, unscheduled

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

SECONDS = 60.0
_TAKEN = "pyscheduler_config_last_reload_successful"


class Mounted:
    """A folder like the kubelet's mount of a ConfigMap: `..data` is a replaced link, the file a link through it."""

    def __init__(self, folder: Path, text: str) -> None:
        self._folder = folder
        self._versions = 0
        self.file = folder / "config.yaml"
        self.write(text)
        self.file.symlink_to("..data/config.yaml")

    def write(self, text: str) -> None:
        self._versions += 1
        name = f"..{self._versions}"
        (self._folder / name).mkdir(parents=True)
        (self._folder / name / "config.yaml").write_text(text)
        (self._folder / "..new").symlink_to(name)
        (self._folder / "..new").rename(self._folder / "..data")


async def _logged(running: SchedulerProcess, words: str, times: int = 1) -> None:
    deadline = time.monotonic() + SECONDS
    while running.log.read_text().count(words) < times:
        assert time.monotonic() < deadline, f"no {words!r} in\n{running.log.read_text()[-3000:]}"
        await asyncio.sleep(0.2)


async def _keep_coming(control_plane: Plane, namespace: str, created: list[str]) -> None:
    """Create some 25 pods a second, until cancelled; their names in `created`."""
    while True:
        name = f"load-{len(created)}"
        created.append(name)
        spec = pod_spec(namespace, namespace, cpu="10m")
        await control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, spec, {"app": "load"}))
        await asyncio.sleep(0.04)


async def test_valid_file_is_reloaded_under_load_and_invalid_one_rejected(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    spread, packed = (
        Configured(
            namespace,
            {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
            [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": strategy}}}],
        ).document()
        for strategy in ("LeastAllocated", "MostAllocated")
    )
    mounted, created = Mounted(tmp_path / "mount", spread), list[str]()
    async with (
        hollow_nodes(control_plane, namespace, 10),
        scheduler_with(control_plane, mounted.file, tmp_path) as running,
    ):
        load = asyncio.create_task(_keep_coming(control_plane, namespace, created))
        found = await api.until(pods, lambda found: len(placed(found)) >= 50)
        assert len(set(placed(found).values())) == 10
        mounted.write(packed)
        await _logged(running, "Configuration reloaded")
        mounted.write(packed + "parallelism: 0\n")
        await _logged(running, "Invalid configuration, keeping the current one")
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await api.until(pods, lambda found: len(placed(found)) >= len(created) - 1, labelSelector="app=load")
        assert not any(unscheduled(item) for item in (await api.get(pods))["items"])
        await _check_packed(control_plane, namespace)
        assert "parallelism: Invalid value: 0: should be an integer value greater than zero" in running.log.read_text()
        metrics = (await running.text(api, "/metrics")).splitlines()
        assert f"{_TAKEN} 0.0" in metrics
        assert 'pyscheduler_config_reloads_total{result="success"} 1.0' in metrics
        assert 'pyscheduler_config_reloads_total{result="failure"} 1.0' in metrics


async def _check_packed(control_plane: Plane, namespace: str) -> None:
    """Ten more pods go to the fullest node, and to the next when that reaches its pod limit.

    They are so large that each makes its node the fullest, however many were so before.
    """
    api = control_plane.api
    workload = deployment("after", 10, pod_spec(namespace, namespace, cpu="200m"))
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", workload)
    found = await api.until(
        f"/api/v1/namespaces/{namespace}/pods", lambda found: len(placed(found)) == 10, labelSelector="app=after"
    )
    assert len(set(placed(found).values())) <= 2


async def test_plugin_added_by_a_reload_has_its_watched_objects(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """PodGroups are not watched at first; after the reload the gang waits for its third member and is reported."""
    api, pods = control_plane.api, f"/api/v1/namespaces/{namespace}/pods"
    groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    mounted = Mounted(tmp_path / "mount", Configured(namespace).document())
    async with (
        hollow_nodes(control_plane, namespace, 2),
        scheduler_with(control_plane, mounted.file, tmp_path) as running,
    ):
        group = {"metadata": {"name": "crew"}, "spec": {"minMember": 3}}
        await api.create(groups, {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **group})
        mounted.write(Configured(namespace, {"multiPoint": {"enabled": [{"name": "Gang"}]}}).document())
        await _logged(running, "Configuration reloaded")
        members = [
            pod(f"crew-{i}", pod_spec(namespace, namespace), {"scheduling.x-k8s.io/pod-group": "crew"})
            for i in range(3)
        ]
        for member in members[:2]:
            await api.create(pods, member)
        few = "has fewer than the 3 pods that it needs"
        await api.until(pods, lambda found: sum(few in unscheduled(item) for item in found["items"]) == 2)
        await api.create(pods, members[2])
        await api.until(pods, lambda found: len(placed(found)) == 3)
        await api.until(f"{groups}/crew", lambda found: found.get("status", {}).get("scheduled") == 3)


async def test_profiles_and_extenders_are_added_and_removed(
    control_plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """A pending pod of a new profile is scheduled after the reload, with the new extender."""
    api, pods, other = control_plane.api, f"/api/v1/namespaces/{namespace}/pods", f"{namespace}-other"

    def of(name: str, scheduler: str) -> Json:
        return pod(name, pod_spec(scheduler, namespace))

    alone = Configured(namespace).document()
    mounted = Mounted(tmp_path / "mount", alone)
    async with (
        extender(control_plane, tmp_path) as service,
        hollow_nodes(control_plane, namespace, 2),
        scheduler_with(control_plane, mounted.file, tmp_path) as running,
    ):
        await api.create(pods, of("early", other))
        await api.create(pods, of("mine", namespace))
        await api.until(pods, lambda found: list(placed(found)) == ["mine"])
        both = yaml.safe_load(alone)
        both["profiles"] += [{"schedulerName": other}]
        both["extenders"] = [{"urlPrefix": service.url, "filterVerb": "filter"}]
        mounted.write(yaml.safe_dump(both))
        await api.until(pods, lambda found: len(placed(found)) == 2)
        (call,) = service.calls("filter")
        assert call["Pod"]["metadata"]["name"] == "early"
        assert len(call["Nodes"]["items"]) >= 2
        mounted.write(alone)
        await _logged(running, "Configuration reloaded", times=2)
        await api.create(pods, of("late", other))
        await api.create(pods, of("mine-too", namespace))
        found = await api.until(pods, lambda found: len(placed(found)) == 3)
        assert set(placed(found)) == {"early", "mine", "mine-too"}
        assert len(service.calls("filter")) == 1
        assert not any(unscheduled(item) for item in found["items"])
