"""Reconfiguration of a running scheduler: additional watches, extenders, names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.cli.endpoints import configz
from pyscheduler.config.load import default, loads
from pyscheduler.config.problems import ConfigError
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.paths import NODES, PODS, SUCCEEDED_PODS, collection
from pyscheduler.shell import scheduler as module
from pyscheduler.shell.leadership import ALWAYS_LEADER, Leadership, Work
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler, SchedulerOptions
from pyscheduler.testing import node, pod
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL
from tests.unit.kube.fake_api import FakeApi, Json, listed, ok
from tests.unit.kube.virtual import VirtualClock

from .fake_extender import FakeExtender

GANG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles: [{plugins: {multiPoint: {enabled: [{name: Gang}]}}}]
"""
WITH_EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
extenders: [{{urlPrefix: "{url}", filterVerb: filter}}]
profiles: [{{plugins: {{filter: {{disabled: [{{name: TaintToleration}}]}}}}}}]
"""
NEEDS_RESTART = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 20
clientConnection: {qps: 7}
leaderElection: {leaderElect: true, resourceName: other}
profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 30}}]}]
---
apiVersion: pyscheduler.io/v1
kind: PySchedulerConfiguration
seed: 7
"""


class Standby:
    """Leadership that another process holds."""

    lost = False

    def holds(self) -> bool:
        return False

    async def lead(self, work: Work) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def running(
    api: FakeApi,
    connection: Connection,
    clock: VirtualClock,
    nodes: Sequence[Json] = (),
    pods: Sequence[Json] = (),
    leadership: Leadership = ALWAYS_LEADER,
    on_kinds_changed: Callable[[Iterable[ResourceKind]], None] = lambda _: None,
) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(
        default(),
        Connections(connection, connection),
        clock,
        Metrics(),
        leadership,
        SchedulerOptions(on_kinds_changed=on_kinds_changed),
    )
    api.script(collection(NODES), listed(*nodes))
    api.script(collection(PODS), listed(*pods))
    for kind in scheduler.kinds:
        api.script(collection(kind), listed())
    work = asyncio.create_task(scheduler.run())
    await asyncio.gather(*(reflector.synced.wait() for reflector in scheduler.reflectors))
    yield scheduler
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


@pytest.fixture
async def scheduler(api: FakeApi, connection: Connection, clock: VirtualClock) -> AsyncIterator[Scheduler]:
    async with running(api, connection, clock) as scheduler:
        yield scheduler


def is_watched(api: FakeApi, kind: ResourceKind) -> bool:
    return any("watch" in call.query for call in api.of("GET", collection(kind)))


async def until(true: Callable[[], object]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def succeeded_pods(api: FakeApi, *pods: Json) -> None:
    """Script the list of the second pod reflector; waits until the first has listed, or it would get them."""
    await until(partial(is_watched, api, PODS))
    api.script(collection(PODS), listed(*pods))


def permits(scheduler: Scheduler) -> list[str]:
    return [p.name for profile in scheduler.machine.context.profiles.values() for p in profile.permit]


async def test_resources_of_a_new_plugin_are_listed_before_it_is_used(api: FakeApi, scheduler: Scheduler) -> None:
    group = {"metadata": {"name": "group", "namespace": "default", "uid": "u", "resourceVersion": "1"}}
    api.script(collection(POD_GROUP), listed(group))
    await succeeded_pods(api)
    assert await scheduler.reconfigure(loads(GANG)) == ()
    assert permits(scheduler) == ["Gang"]
    assert list(scheduler.machine.context.handle.objects[POD_GROUP]) == [("default", "group")]
    assert POD_GROUP in scheduler.kinds
    assert "podgroups" in {reflector.kind.plural for reflector in scheduler.reflectors}


async def test_succeeded_pods_are_listed_before_a_plugin_that_counts_them_is_used(
    api: FakeApi, scheduler: Scheduler
) -> None:
    api.script(collection(POD_GROUP), listed())
    done = pod("a").label(POD_GROUP_LABEL, "group").on("n").phase("Succeeded").version(3)
    await succeeded_pods(api, done.manifest)
    await scheduler.reconfigure(loads(GANG))
    queries = [call.query for call in api.of("GET", collection(PODS)) if call.query.get("labelSelector")]
    assert {(q["fieldSelector"], q["labelSelector"]) for q in queries} == {(SUCCEEDED_PODS, POD_GROUP_LABEL)}
    members = scheduler.machine.context.handle.pods.by_label(POD_GROUP_LABEL, "default", "group")
    assert [member.name for member in members.values()] == ["a"]
    assert not scheduler.machine.context.pods


async def test_reconfigure_fails_when_a_resource_cannot_be_listed(
    api: FakeApi, scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await succeeded_pods(api)
    monkeypatch.setattr(module, "LISTING", 3.0)
    with pytest.raises(
        ConfigError,
        match=r"plugins watch what cannot be listed: podgroups\.v1alpha1\.scheduling\.x-k8s\.io \(/apis/.*\)",
    ):
        await scheduler.reconfigure(loads(GANG))
    assert permits(scheduler) == []
    assert POD_GROUP not in scheduler.kinds
    assert scheduler.unsynced == ""


@pytest.mark.parametrize("former_uid", ["", "uid of the pod's predecessor"], ids=["the same", "recreated"])
async def test_new_extenders_are_sent_existing_objects(
    api: FakeApi, connection: Connection, clock: VirtualClock, extender: FakeExtender, former_uid: str
) -> None:
    tainted, waiting = node("n1").taint("keep", "out").manifest, pod("a").version(3).manifest
    first = {**waiting, "metadata": {**waiting["metadata"], "uid": former_uid or waiting["metadata"]["uid"]}}
    extender.responses["filter"] = {"Nodes": {"items": [tainted]}}
    api.script("/api/v1/namespaces/default/pods/a/binding", ok({}))
    async with running(api, connection, clock, [tainted], [first]) as scheduler:
        for kind, found in ((NODES, tainted), (PODS, waiting)):
            await until(partial(is_watched, api, kind))
            api.script(collection(kind), listed(found))
        assert await scheduler.reconfigure(loads(WITH_EXTENDER.format(url=extender.url))) == ()
        await until(lambda: api.of("POST", "/binding"))
    ((verb, body),) = extender.calls
    assert (verb, body["Pod"]["metadata"]["name"]) == ("filter", "a")
    assert [each["metadata"]["name"] for each in body["Nodes"]["items"]] == ["n1"]


async def test_names_are_those_of_the_current_configuration(scheduler: Scheduler) -> None:
    await scheduler.reconfigure(loads(GANG.split("profiles")[0] + "profiles: [{schedulerName: other}]"))
    assert scheduler.names == ("other",)


async def test_configz_has_the_values_in_use_until_the_restart(scheduler: Scheduler) -> None:
    before = configz(scheduler.config)
    restart = await scheduler.reconfigure(loads(NEEDS_RESTART))
    assert restart == (
        "clientConnection",
        "leaderElection",
        "seed",
        'args of VolumeBinding in profile "default-scheduler"',
    )
    after = configz(scheduler.config)
    for section in ("clientConnection", "leaderElection"):
        assert after["componentconfig"][section] == before["componentconfig"][section]
    assert after["componentconfig"]["podMaxBackoffSeconds"] == 20
    assert after["pyscheduler"]["seed"] == before["pyscheduler"]["seed"]
    timeouts = {each["name"]: each["args"] for each in after["componentconfig"]["profiles"][0]["pluginConfig"]}
    assert timeouts["VolumeBinding"]["bindTimeoutSeconds"] == 600


async def test_on_kinds_changed_is_called_with_the_plugins_kinds_while_leading(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    attended: list[bool] = []
    record = lambda kinds: attended.append(POD_GROUP in kinds)  # noqa: E731
    async with running(api, connection, clock, on_kinds_changed=record) as scheduler:
        api.script(collection(POD_GROUP), listed())
        await succeeded_pods(api)
        await scheduler.reconfigure(loads(GANG))
        await scheduler.reconfigure(default())
    assert attended[-3:] == [True, False, False]


async def test_on_kinds_changed_is_not_called_while_not_leading(
    api: FakeApi, connection: Connection, clock: VirtualClock
) -> None:
    attended: list[bool] = []
    record = lambda kinds: attended.append(POD_GROUP in kinds)  # noqa: E731
    async with running(api, connection, clock, leadership=Standby(), on_kinds_changed=record) as scheduler:
        api.script(collection(POD_GROUP), listed())
        await succeeded_pods(api)
        await scheduler.reconfigure(loads(GANG))
    assert attended == []
