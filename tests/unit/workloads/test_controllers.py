"""Nothing is made twice while the news of the first making is on the way."""

from __future__ import annotations

from typing import Any

from pyscheduler.embedded.client import EVENTS, JOBS, OBJECTS, PODS, REPLICASETS, Informer, Key, Resource
from pyscheduler.embedded.workloads.controllers import JOB, REPLICASET, QueueItem, WorkloadControllers
from pyscheduler.embedded.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS
from tests.unit.hollow.scripted import ScriptedServer
from tests.unit.workloads.builders import Json, a_pod, workload

ITEM = QueueItem(REPLICASET, ("default", "rs"))


class EventRecorder(ScriptedServer):
    """Takes every request and counts the pods made and deleted."""

    def __init__(self) -> None:
        super().__init__([], [])
        self.made: list[Json] = []
        self.deleted: list[str] = []

    async def create(self, resource: Resource, obj: Json) -> Json:
        if resource == EVENTS:
            return obj
        name = f"made-{len(self.made)}"
        self.made.append({**obj, "metadata": {**obj["metadata"], "name": name, "uid": name}})
        return self.made[-1]

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", grace_seconds: int | None = None) -> None:
        self.deleted.append(key[1])

    async def patch(self, resource: Resource, key: Key, patch: Json, **_: Any) -> None:
        pass


class ReplicaSetFixture:
    """A ReplicaSet and its controller, whose local copy of pods changes only when a test says so."""

    def __init__(self, replicas: int) -> None:
        self.server, self.now = EventRecorder(), 0.0
        self.pods = Informer(self.server, PODS, OBJECTS)
        self.jobs = Informer(self.server, JOBS, OBJECTS)
        main = {REPLICASET: Informer(self.server, REPLICASETS, OBJECTS), JOB: self.jobs}
        self.workloads = WorkloadControllers(self.server, lambda: self.now, self.pods, main, 10.0)
        main[REPLICASET].objects[ITEM.key] = workload("ReplicaSet", "rs", replicas=replicas)

    def news(self, pod: Json) -> None:
        """The watch tells of a pod."""
        key = ("default", pod["metadata"]["name"])
        before = self.pods.objects.get(key)
        self.pods.objects[key] = pod
        for listener in self.pods.listeners:
            listener(before, pod)

    def put_job(self, job: Json) -> None:
        """The watch tells of the Job."""
        before = self.jobs.objects.get(JOB_ITEM.key)
        self.jobs.objects[JOB_ITEM.key] = job
        for listener in self.jobs.listeners:
            listener(before, job)

    def drop_job(self) -> None:
        """The watch tells that it is gone."""
        before = self.jobs.objects.pop(JOB_ITEM.key)
        for listener in self.jobs.listeners:
            listener(before, None)

    async def look(self) -> None:
        await self.workloads.reconcile(ITEM)
        self.workloads.queue.close()


async def test_pods_are_not_made_again_before_the_first_are_seen() -> None:
    world = ReplicaSetFixture(2)
    await world.look()
    await world.look()
    world.news(world.server.made[0])
    await world.look()
    assert len(world.server.made) == 2


async def test_once_all_are_seen_the_controller_goes_on() -> None:
    world = ReplicaSetFixture(2)
    await world.look()
    for pod in list(world.server.made):
        world.news(pod)
    world.news({**world.server.made[0], "status": {"phase": "Failed"}})
    await world.look()
    assert len(world.server.made) == 3


async def test_news_that_never_come_are_not_waited_for_for_ever() -> None:
    world = ReplicaSetFixture(1)
    await world.look()
    world.now = EXPECTATIONS_TIMEOUT_SECONDS
    await world.look()
    assert len(world.server.made) == 2


JOB_ITEM = QueueItem(JOB, ("default", "j"))


def a_job(version: str, **status: Any) -> Json:
    job = workload("Job", "j", completions=1, status=status)
    job["metadata"]["resourceVersion"] = version
    return job


async def test_a_job_is_left_alone_until_the_news_of_its_status_is_there() -> None:
    world = ReplicaSetFixture(1)
    world.put_job(a_job("1"))
    await world.workloads.reconcile(JOB_ITEM)
    made = world.server.made[0]
    world.news(made)
    world.news({**made, "status": {"phase": "Failed"}})
    world.now += 20
    await world.workloads.reconcile(JOB_ITEM)
    assert len(world.server.made) == 1, "its copy is older than what was written"
    world.put_job(a_job("2", active=1))
    await world.workloads.reconcile(JOB_ITEM)
    world.workloads.queue.close()
    assert len(world.server.made) == 2


async def test_the_pods_of_a_job_that_is_gone_are_looked_at() -> None:
    world = ReplicaSetFixture(1)
    owner = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    world.put_job(a_job("1"))
    world.news(a_pod("p", ownerReferences=owner))
    before = len(world.workloads.queue)
    world.drop_job()
    assert len(world.workloads.queue) == before + 1


async def test_pods_are_not_deleted_again_before_the_first_deletion_is_seen() -> None:
    world = ReplicaSetFixture(1)
    owner = [{"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]
    for name in "abc":
        world.news(a_pod(name, ownerReferences=owner))
    await world.look()
    await world.look()
    assert len(world.server.deleted) == 2
