"""Tasks in several namespaces: one budget, one callback, and one namespace that fails does not stop another."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.api import ApiError
from pyscheduler.backend import BackendPlace, FixedBudget, NamespacedTaskBackends, Resources, TaskPhase, TaskRecord
from pyscheduler.backend.state import StateInUse
from tests.properties.task_cluster import Fate
from tests.properties.task_simulation import SETTINGS
from tests.unit.backend.test_backend import BackendFixture, ObjectsConnection, on_virtual_time, task


def places(**fixtures: BackendFixture) -> dict[str, BackendPlace]:
    return {name: BackendPlace(fixture.connection, fixture.state) for name, fixture in fixtures.items()}


@on_virtual_time
async def test_tasks_of_two_namespaces_share_one_budget() -> None:
    jobs, night = BackendFixture(long=Fate.UNSCHEDULABLE), BackendFixture()
    ended: list[tuple[str, str]] = []

    async def on_update(namespace: str, record: TaskRecord) -> None:
        if record.final:
            ended.append((namespace, record.id))

    budget = FixedBudget(Resources.of({"cpu": "2"}))
    async with NamespacedTaskBackends(
        places(jobs=jobs, night=night), budget, settings=SETTINGS, on_update=on_update
    ) as all:
        await all["jobs"].submit_all([task("long"), task("other")])
        waiting = all["night"].submit_when_room(task("other"))
        assert all["night"].offer().free == Resources({"cpu": 0})
        await asyncio.sleep(1.0)
        assert not waiting.done(), "both cores are used in the other namespace"
        await waiting
        assert all["jobs"].task("other").final, "there is room once a task there has ended"
        await all["jobs"].kill("long")
        await all.wait_until_settled()
        assert all["night"].offer().free == Resources({"cpu": 2000})
    assert sorted(ended) == [("jobs", "long"), ("jobs", "other"), ("night", "other")]
    assert (jobs.cluster.pods, night.cluster.pods) == ({}, {})


@on_virtual_time
async def test_namespace_that_is_away_is_named_and_does_not_stop_another() -> None:
    jobs, night = BackendFixture(), BackendFixture()

    class Connection(ObjectsConnection):
        async def list_pods(self, selector: str) -> object:  # type: ignore[override]  # it only raises
            raise ApiError(403, "Forbidden", "pods is forbidden")

    night.connection = Connection(night.cluster, night.connection._crash_switch)
    async with NamespacedTaskBackends(places(jobs=jobs, night=night), settings=SETTINGS) as all:
        await all["jobs"].submit(task("a"))
        await all["jobs"].wait_until_settled()
        assert all["jobs"].task("a").phase is TaskPhase.SUCCEEDED
        assert all.problem == "night: pods: they cannot be listed: pods is forbidden"


@on_virtual_time
async def test_backends_are_stopped_if_one_cannot_start() -> None:
    jobs, night = BackendFixture(), BackendFixture()
    await night.state.open()
    both = NamespacedTaskBackends(places(jobs=jobs, night=night), FixedBudget(Resources.of({"cpu": "2"})))
    with pytest.raises(StateInUse):
        async with both:
            pass
    await jobs.state.open()  # it was closed
