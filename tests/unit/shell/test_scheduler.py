"""The whole scheduler before, during and after leadership."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyscheduler.api import Pod, PreEnqueuePlugin, Rejection
from pyscheduler.cli.run import health_checks
from pyscheduler.config.load import from_value
from pyscheduler.kube.connection import Connection
from pyscheduler.kube.deadlines import Deadlines
from pyscheduler.kube.paths import NODES, PODS, collection
from pyscheduler.shell.leadership import Work
from pyscheduler.shell.metrics import Metrics
from pyscheduler.shell.scheduler import Connections, Scheduler
from pyscheduler.testing import node, pod
from tests.unit.kube.fake_api import FakeApi, event, listed, ok, watch
from tests.unit.kube.virtual import SteppedClock

GATED = {"plugins": {"preEnqueue": {"enabled": [{"name": f"{__name__}:GatesAll"}]}}}
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
BINDING = "/api/v1/namespaces/default/pods/a/binding"


class GatesAll(PreEnqueuePlugin):
    name = "GatesAll"
    reports_gating = True

    def pre_enqueue(self, _: Pod) -> Rejection:
        return Rejection("the group lacks members")


@dataclass
class FakeLeadership:
    """Leadership that the test grants."""

    granted: asyncio.Event = field(default_factory=asyncio.Event)
    held: bool = False
    lost: bool = False

    def holds(self) -> bool:
        return self.held

    def grant(self) -> None:
        self.held = True
        self.granted.set()

    async def lead(self, work: Work) -> None:
        await self.granted.wait()
        await work()


@asynccontextmanager
async def scheduling(
    api: FakeApi,
    connection: Connection,
    leadership: FakeLeadership,
    delay: bool = False,
    clock: SteppedClock | None = None,
    profile: dict[str, Any] | None = None,
    groups: int = 0,
) -> AsyncIterator[Scheduler]:
    """Run a scheduler in a cluster with one node and, unless it has a `profile`, one pod that fits.

    `groups` is the number of PodGroups of each API.
    """
    config = from_value(HEAD | {"delayCacheUntilActive": delay} | ({"profiles": [profile]} if profile else {}))
    connections = Connections.to_server_of(connection, leadership)
    scheduler = Scheduler(config, connections, clock or SteppedClock(), Metrics(), leadership)
    answer = api.always_list if groups else api.script
    for kind in scheduler.kinds:
        names = [f"g{number}" for number in range(groups if kind.plural == "podgroups" else 0)]
        objects = listed(*({"metadata": {"namespace": "default", "name": name}} for name in names))
        answer(collection(kind), objects)
    answer(collection(NODES), listed(node("n1", cpu="1").manifest))
    if profile is None:
        api.script(collection(PODS), listed(pod("a").requests(cpu="1").manifest))
    elif groups:
        answer(collection(PODS), listed())
    api.script(BINDING, ok({}))
    running = asyncio.create_task(scheduler.run())
    yield scheduler
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await connections.close()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never became true")


async def a_while() -> None:
    """Wait long enough to notice unexpected calls."""
    for _ in range(200):
        await asyncio.sleep(0)


async def test_scheduler_lists_the_cluster_but_writes_nothing_before_it_leads(
    api: FakeApi, connection: Connection
) -> None:
    leadership = FakeLeadership()
    async with scheduling(api, connection, leadership) as scheduler:
        await until(lambda: not scheduler.unsynced)
        await a_while()
        assert {call.method for call in api.calls} == {"GET"}
        assert scheduler.machine.context.queue.pending_counts()["active"] == 1
        leadership.grant()
        await until(lambda: api.of("POST", BINDING))


async def test_connections_that_are_being_opened_when_the_lists_are_read_are_not_abandoned(
    api: FakeApi, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bindings need them, and the event loop logs an error for each TLS handshake that is cancelled."""
    requested, made, opened = asyncio.Event(), asyncio.Event(), []

    async def warm(_: Connection, connections: int) -> None:
        requested.set()
        await made.wait()
        opened.append(connections)

    monkeypatch.setattr(Connection, "warm", warm)
    leadership = FakeLeadership()
    async with scheduling(api, connection, leadership) as scheduler:
        await requested.wait()
        await until(lambda: not scheduler.unsynced)
        leadership.grant()
        await until(lambda: api.of("POST", BINDING))
        made.set()
        await until(lambda: opened)


async def test_scheduler_with_delay_cache_until_active_lists_nothing_before_it_leads(
    api: FakeApi, connection: Connection
) -> None:
    leadership = FakeLeadership()
    async with scheduling(api, connection, leadership, delay=True):
        await a_while()
        assert api.calls == []
        leadership.grant()
        await until(lambda: api.of("POST", BINDING))


async def test_decisions_after_loss_of_leadership_are_not_sent(api: FakeApi, connection: Connection) -> None:
    leadership = FakeLeadership()
    leadership.granted.set()  # as a frozen process that continues without the lease
    async with scheduling(api, connection, leadership) as scheduler:
        await until(lambda: scheduler.metrics.attempts.counts[("error", "default-scheduler")])
        await a_while()
        assert {call.method for call in api.calls if "/events" not in call.path} == {"GET"}


async def test_unwatched_resources_are_reported_after_a_minute(api: FakeApi, connection: Connection) -> None:
    clock = SteppedClock()
    async with scheduling(api, connection, FakeLeadership(), clock=clock) as scheduler:
        await until(lambda: not scheduler.unsynced)
        watched = len(scheduler.reflectors)
        await until(lambda: sum("watch" in call.query for call in api.calls) == watched)
        assert health_checks(scheduler, {}, {}).ready["watch"]() is None
        clock.at += Deadlines().unwatched + 1
        problem = health_checks(scheduler, {}, {}).ready["watch"]()
        assert problem is not None
        assert problem.startswith("not watched: nodes for 61 s (no answer), ")
        assert "pods for 61 s (no answer)" in problem


async def test_gated_pods_are_reported_by_the_leader_only(
    api: FakeApi, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that waits for the lease sees the same pods; when it leads, it reports those that are left."""
    left, gone = pod("b").manifest, pod("c").manifest
    leadership = FakeLeadership()
    async with scheduling(api, connection, leadership, profile=GATED) as scheduler:
        api.script(collection(PODS), listed(left, gone), watch(event("DELETED", gone)))
        await until(lambda: not scheduler.unsynced and list(scheduler.machine.context.pods) == ["b"])
        await a_while()
        assert {call.method for call in api.calls} == {"GET"}
        assert "pyscheduler.patcher" not in {record.name for record in caplog.records}
        leadership.grant()
        await until(lambda: api.of("PATCH"))
        await a_while()
    assert [call.path for call in api.of("PATCH")] == ["/api/v1/namespaces/default/pods/b/status"]


async def test_resources_of_several_groups_and_versions_have_different_names_and_are_counted_together(
    api: FakeApi, connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="pyscheduler.scheduler")
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "PodGroups"}]}}}
    clock = SteppedClock()
    async with scheduling(api, connection, FakeLeadership(), clock=clock, profile=profile, groups=1) as scheduler:
        names = [each.name for each in scheduler.reflectors if each.kind.plural == "podgroups"]
        async with asyncio.timeout(30):
            while not any(line.message == "Caches synced" for line in caplog.records):
                await a_while()
                await clock.advance(0.1)  # a lost connection is retried
    assert len({*names}) == len(names) > 1
    (line,) = (line for line in caplog.records if line.message == "Caches synced")
    assert line.__dict__["fields"]["podgroups"] == len(names)
