"""A task backend that lives and dies on virtual time, before a cluster that answers late, or not, or no.

Each life of the backend has a wire and a hand on the state of its own. When it dies, both go dead between one await and
the next: nothing that was not done by then will be done, and what was under way has happened or has not.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

import msgspec

from pyscheduler.backend import (
    BackendSettings,
    BackendStopped,
    ClusterProblem,
    FixedBudget,
    InsufficientResources,
    KubernetesTaskBackend,
    PodsSnapshot,
    PodState,
    Resources,
    TaskFinal,
    TaskPhase,
    TaskRecord,
    TaskSpec,
    UnknownTask,
)
from pyscheduler.backend.state import SavedState, StateProblem
from pyscheduler.backend.state.memory import MemoryState
from pyscheduler.backend.task import Json
from tests.properties.task_cluster import Cluster, Fate

SETTINGS = BackendSettings(concurrency=4, poll_seconds=40.0, image_seconds=30.0, lost_seconds=20.0, place_seconds=3.0)
LIMIT = Resources({"cpu": 4000, "pods": 50})


class Task(msgspec.Struct, frozen=True):
    """What a task is to meet: the fate of each attempt in turn, the last one for ever."""

    fates: tuple[Fate, ...]
    killed_after: float | None = None
    updated_after: float | None = None
    refused: int = 0


class TaskScenario(msgspec.Struct, frozen=True):
    """All that differs from example to example; everything else follows from `seed`."""

    tasks: tuple[Task, ...]
    lives: tuple[float, ...] = ()
    """Seconds after which the backend is killed, life by life. The last life goes on until all is settled."""
    trouble: float = 0.0
    """How likely a call fails, before or after it has had its effect; also a commit."""
    compactions: float = 0.0
    """How likely the past is forgotten, looked at every few seconds."""
    seed: int = 0


class CrashSwitch:
    """Of one life: blown when it is over."""

    def __init__(self, chance: random.Random, trouble: float) -> None:
        self.blown = False
        self.chance, self.trouble = chance, trouble

    async def way(self, longest: float = 0.5) -> None:
        """Time passes; whoever is dead stays here."""
        await asyncio.sleep(self.chance.uniform(0.0, longest))
        if self.blown:
            await asyncio.get_running_loop().create_future()

    def fails(self) -> bool:
        return self.chance.random() < self.trouble


class ClusterConnection:
    """What a life of the backend sees of the cluster (`PodsApi`)."""

    def __init__(self, cluster: Cluster, fuse: CrashSwitch) -> None:
        self._cluster, self._fuse = cluster, fuse
        self.calls: Counter[str] = Counter()

    async def create_pod(self, body: Json) -> PodState:
        await self._there("create")
        pod = self._cluster.create(body)
        await self._back()
        return pod

    async def get_pod(self, name: str) -> PodState:
        await self._there("get")
        pod = self._cluster.find(name)
        await self._back()
        return pod

    async def release_pod(self, name: str, uid: str) -> None:
        await self._there("patch")
        self._cluster.release(name, uid)
        await self._back()

    async def delete_pod(self, name: str, uid: str, grace: int | None = None) -> None:
        await self._there("delete")
        self._cluster.delete(name, uid, grace)
        await self._back()

    async def list_pods(self, selector: str) -> PodsSnapshot:
        await self._there("list")
        found = self._cluster.all()
        await self._back(3.0)
        return found

    async def watch_pods(self, selector: str, place: int) -> AsyncGenerator[PodsSnapshot, None]:
        await self._there("watch")
        async with aclosing(self._cluster.watch(place)) as watch:
            async for told in watch:
                await self._back(2.0)
                yield told

    async def create_object(self, path: str, body: Json) -> None:
        raise NotImplementedError

    async def delete_object(self, path: str, name: str) -> None:
        raise NotImplementedError

    async def list_objects(self, path: str, selector: str = "") -> list[Json]:
        raise NotImplementedError

    async def _there(self, verb: str) -> None:
        self.calls[verb] += 1
        await self._fuse.way()
        if self._fuse.fails():
            raise ClusterProblem(self._fuse.chance.choice((0, 429, 500, 503)), "Trouble", "did not get there")

    async def _back(self, longest: float = 0.5) -> None:
        await self._fuse.way(longest)
        if self._fuse.fails():
            raise ClusterProblem(0, "NoAnswer", "the answer was lost")


class DurableState:
    """The state that outlives lives, with a witness: it sees that no record ever says what it may not."""

    def __init__(self) -> None:
        self.kept = MemoryState()

    def keep(self, changed: Sequence[TaskRecord], place: str | None, forgotten: Sequence[str]) -> None:
        for record in changed:
            before = self.kept.records.get(record.id)
            if before is None:
                continue
            assert record.attempt >= before.attempt, f"{record.id} went back to attempt {record.attempt}"
            assert record.version >= before.version
            if before.final:
                same = msgspec.structs.replace(record, acknowledged=before.acknowledged, cleaned=before.cleaned)
                assert same == before, f"{record.id} left {before.phase}: {record}"
        self.kept.records.update({record.id: record for record in changed})
        self.kept.resource_version = place or self.kept.resource_version


class StateHandle:
    """One life's hold on the ledger (`StateStore`)."""

    def __init__(self, ledger: DurableState, fuse: CrashSwitch) -> None:
        self._ledger, self._fuse = ledger, fuse

    async def open(self) -> SavedState:
        return SavedState(dict(self._ledger.kept.records), self._ledger.kept.resource_version)

    async def commit(
        self, changed: Sequence[TaskRecord], place: str | None = None, forgotten: Sequence[str] = ()
    ) -> None:
        await self._fuse.way(0.2)
        if self._fuse.fails():
            some = [record for record in changed if self._fuse.chance.random() < 0.5]
            self._ledger.keep(some, None, ())
            raise StateProblem("the disk is full")
        self._ledger.keep(changed, place, forgotten)
        await self._fuse.way(0.2)

    async def close(self) -> None:
        return None


class Backend(KubernetesTaskBackend):
    """One whose books are checked wherever they may be seen."""

    def check_books(self) -> None:
        guard = self._process(allow_stopped=True).table
        anew = guard.recompute_allocated()
        assert not (guard.allocated - anew), f"the books say {guard.allocated}, the records {anew}"
        assert not guard.allocated.missing(LIMIT), f"more is held than there is: {guard.allocated}"


class TaskSimulation:
    """Plays a story; `run` returns when every task is settled, and has checked all that must hold."""

    def __init__(self, story: TaskScenario) -> None:
        self.story = story
        self.chance = random.Random(story.seed)
        self.cluster = Cluster(self.chance, self._fate)
        self.cluster.check = self._check  # type: ignore[method-assign]
        self.ledger = DurableState()
        self.backend: Backend | None = None
        self.broken: list[str] = []
        self.told: dict[str, set[TaskPhase]] = {}
        self.specs = {f"t{i}": self._spec(f"t{i}") for i in range(len(story.tasks))}
        self.cluster.refusals.update({f"t{i}": task.refused for i, task in enumerate(story.tasks)})

    @staticmethod
    def _spec(task: str) -> TaskSpec:
        return TaskSpec(id=task, image="x", cpu="1", pending_seconds=200.0)

    def _fate(self, task: str, attempt: int) -> Fate:
        fates = self.story.tasks[int(task[1:])].fates
        return fates[min(attempt, len(fates)) - 1]

    async def run(self) -> None:
        compacting = asyncio.create_task(self._compact())
        for seconds in self.story.lives:
            await self._live(seconds)
        await self._live(None)
        compacting.cancel()
        for life in list(self.cluster.lives):
            life.cancel()
        await asyncio.gather(compacting, *self.cluster.lives, return_exceptions=True)
        self._check_end()

    async def _live(self, seconds: float | None) -> None:
        """One life, killed after so long; None: until all is settled, with nothing in the way from then on."""
        before = asyncio.all_tasks()
        fuse = CrashSwitch(self.chance, self.story.trouble)
        self.backend = Backend(
            ClusterConnection(self.cluster, fuse),
            StateHandle(self.ledger, fuse),
            FixedBudget(LIMIT),
            settings=SETTINGS,
            on_update=self._hear,
            clock=Cluster.now,
            rng=self.chance,
        )
        await self.backend.__aenter__()
        owner = asyncio.create_task(self._own(self.backend))
        try:
            async with asyncio.timeout(seconds if seconds is not None else 3000.0):
                await owner
                await self.backend.wait_until_settled()
            async with asyncio.timeout(200.0):
                while not all(record.acknowledged for record in self.backend.tasks().values()):  # noqa: ASYNC110  # virtual
                    await asyncio.sleep(1.0)
        except TimeoutError:
            assert seconds is not None, f"not settled: {self.backend.tasks()}, {self.cluster.pods}"
        except BackendStopped as stopped:
            raise AssertionError(str(stopped)) from None
        fuse.blown = True
        theirs = asyncio.all_tasks() - before - self.cluster.lives
        for task in theirs:
            task.cancel()
        await asyncio.gather(*theirs, return_exceptions=True)
        assert not self.broken, self.broken[0]

    async def _own(self, backend: KubernetesTaskBackend) -> None:
        """The owner: submits all, as often as it takes, and changes its mind about some."""
        with suppress(BackendStopped):
            wishes = [asyncio.create_task(self._wish(backend, i, task)) for i, task in enumerate(self.story.tasks)]
            try:
                await backend.submit_all(spec for name, spec in self.specs.items() if name not in backend.tasks())
                await asyncio.gather(*wishes)
            finally:
                for wish in wishes:
                    wish.cancel()

    async def _wish(self, backend: KubernetesTaskBackend, number: int, task: Task) -> None:
        name, loop = f"t{number}", asyncio.get_running_loop()
        for after, kind in sorted((at, k) for at, k in ((task.killed_after, "kill"), (task.updated_after, "up")) if at):
            await asyncio.sleep(max(0.0, after - loop.time()))
            while name not in backend.tasks():  # noqa: ASYNC110  # virtual
                await asyncio.sleep(0.5)
            with suppress(UnknownTask, TaskFinal, InsufficientResources):
                if kind == "kill":
                    await backend.kill(name)
                else:
                    await backend.update(msgspec.structs.replace(self.specs[name], cpu="500m", owner={"by": "us"}))

    async def _hear(self, record: TaskRecord) -> None:
        durable = self.ledger.kept.records[record.id]
        assert durable.version >= record.version, "told before it was durable"
        if self.chance.random() < self.story.trouble:
            raise ConnectionError("the owner is away")
        if record.final:
            self.told.setdefault(record.id, set()).add(record.phase)

    async def _compact(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(1.0, 10.0))
            if self.chance.random() < self.story.compactions:
                self.cluster.compact()

    def _check(self) -> None:
        """Whoever changes the cluster goes on: what is broken is told in the end."""
        try:
            self._check_now()
        except AssertionError as found:
            self.broken.append(str(found))

    def _check_now(self) -> None:
        for task in self.specs:
            living = self.cluster.live(task)
            assert len(living) <= 1, f"two pods of one task run: {living}"
            assert not living or task in self.ledger.kept.records, f"a pod of a task that is not durable: {living}"
        if self.backend is not None:
            with suppress(BackendStopped, AttributeError):
                self.backend.check_books()

    def _check_end(self) -> None:
        assert self.backend is not None
        assert not self.cluster.pods, f"pods are left: {self.cluster.pods}"
        assert not self.backend.allocated_resources(), f"something is held: {self.backend.allocated_resources()}"
        for name, record in self.ledger.kept.records.items():
            assert record.settled
            assert record.acknowledged
            assert self.told.get(name) == {record.phase}, f"{name} is {record.phase}, told were {self.told.get(name)}"
            self._check_fate(self.story.tasks[int(name[1:])], record)

    def _check_fate(self, task: Task, record: TaskRecord) -> None:
        """Without a kill, the phase and the number of attempts follow from the fates alone."""
        phase, attempts = expected(task.fates, record.spec.retry.infrastructure)
        if task.killed_after is None:
            assert (record.phase, record.attempt) == (phase, attempts), f"{record}"
        assert record.attempt <= attempts
        assert self.cluster.created[record.id] <= attempts, "a pod more than attempts"


GOES_ON = {
    Fate.EVICT,
    Fate.PREEMPT,
    Fate.DELETE,
    Fate.DELETE_PENDING,
    Fate.STRIP,
    Fate.LOSE,
    Fate.REFUSED_BY_NODE,
}


def expected(fates: Sequence[Fate], retries: int) -> tuple[TaskPhase, int]:
    """How a task with these fates must end, and after how many attempts."""
    attempt = 1
    while True:
        fate = fates[min(attempt, len(fates)) - 1]
        if fate in (Fate.SUCCEED, Fate.SUCCEED_AND_GO):
            return TaskPhase.SUCCEEDED, attempt
        if fate not in GOES_ON or attempt > retries:
            return TaskPhase.FAILED, attempt
        attempt += 1
