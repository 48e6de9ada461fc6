"""Whatever happens to pods, calls, the disk and the backend itself, every task ends once and leaves nothing behind.

Scenarios are drawn: the fate of each attempt, when the owner kills or updates a task, when the backend crashes (between
any two awaits), how often calls and commits fail, and how often the API server drops its history. The checks are in
`task_simulation.py`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyscheduler.api import ApiError
from pyscheduler.backend import TaskTable, UnknownTask, lifecycle, process, task_table
from pyscheduler.backend.decide import Get, Observation, observe
from pyscheduler.backend.delivery import UpdateDelivery
from pyscheduler.backend.executor import ApiCallExecutor
from pyscheduler.backend.lifecycle import TaskPodsLifecycleManager
from pyscheduler.backend.pods import PodState
from pyscheduler.backend.task import Json, TaskRecord
from pyscheduler.backend.template import pod_body
from tests.properties.task_cluster import Fate
from tests.properties.task_simulation import Task, TaskScenario, TaskSimulation
from tests.virtual_loop import run

FATES = st.lists(st.sampled_from(Fate), min_size=1, max_size=4).map(tuple)
WHENS = st.none() | st.floats(0.0, 60.0)
TASKS = st.builds(Task, fates=FATES, killed_after=WHENS, updated_after=WHENS, refused=st.sampled_from((0, 0, 2)))
STORIES = st.builds(
    TaskScenario,
    tasks=st.lists(TASKS, min_size=1, max_size=6).map(tuple),
    lives=st.lists(st.floats(0.0, 40.0), max_size=5).map(tuple),
    trouble=st.sampled_from((0.0, 0.05, 0.2)),
    compactions=st.sampled_from((0.0, 0.3)),
    seed=st.integers(0, 2**32),
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable logging: all failures are intended."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def play(story: TaskScenario) -> None:
    await TaskSimulation(story).run()


@given(STORIES)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_every_task_ends_once_and_leaves_no_pods(story: TaskScenario) -> None:
    run(play(story))


def drawn(seed: int) -> TaskScenario:
    """Draw a scenario without Hypothesis, which is faster where nothing is shrunk."""
    rng = random.Random(seed)

    def when() -> float | None:
        return rng.choice((None, None, rng.uniform(0.0, 60.0)))

    def task() -> Task:
        fates = tuple(rng.choice(list(Fate)) for _ in range(rng.randint(1, 4)))
        return Task(fates, when(), when(), rng.choice((0, 0, 2)))

    tasks = tuple(task() for _ in range(rng.randint(1, 6)))
    lives = tuple(rng.uniform(0.0, 40.0) for _ in range(rng.randint(0, 5)))
    return TaskScenario(tasks, lives, rng.choice((0.0, 0.05, 0.2)), rng.choice((0.0, 0.3)), seed)


# Originals of the functions that the planted bugs replace.
_body, _observe = pod_body, observe
_round, _observation, _commit = (
    TaskPodsLifecycleManager._reconcile,
    TaskPodsLifecycleManager._observation,
    TaskTable.commit,
)


async def _act_before_commit(manager: TaskPodsLifecycleManager) -> None:
    for task in list(manager._dirty):
        record = manager._table.records.get(task)
        if record is not None and not manager._runtimes[task].busy:
            manager._act(record, manager._observation(record), manager._clock())
    await _round(manager)


def _body_without_finalizer(*args: Any, **named: Any) -> Json:
    body = _body(*args, **named)
    body["metadata"].pop("finalizers")
    return body


async def _release_without_delete(executor: ApiCallExecutor, pod: PodState) -> None:
    await executor._ignore_gone(executor._client.release_pod(pod.name, pod.uid))


def _take_terminating_for_stopped(manager: TaskPodsLifecycleManager, record: TaskRecord) -> Observation:
    observation = _observation(manager, record)
    others = tuple(msgspec.structs.replace(pod, grace=0) for pod in observation.others)
    pod = msgspec.structs.replace(observation.pod, grace=0) if observation.pod is not None else None
    return msgspec.structs.replace(observation, pod=pod, others=others)


def _observe_before_list(record: TaskRecord, observation: Observation, *rest: Any) -> Any:
    if not observation.synced:
        observation = msgspec.structs.replace(observation, synced=True, missing=())
    return _observe(record, observation, *rest)


def _ignore_next_resources(old: TaskRecord, new: TaskRecord) -> bool:
    return old.final == new.final


async def _confirm_first(delivery: UpdateDelivery, record: TaskRecord) -> None:
    delivery._queue._confirm(record)
    await _deliver(delivery, record)


async def _reject_existing_name(executor: ApiCallExecutor, record: TaskRecord, name: str) -> PodState:
    raise ApiError(422, "AlreadyExists", f"{name} exists")


async def _drop_failed_commit(guard: TaskTable, place: str | None = None) -> Any:
    try:
        return await _commit(guard, place)
    except Exception:
        guard._changed = {}
        guard._wake(guard._waiting)
        raise


async def _read_no_pod(executor: ApiCallExecutor, record: TaskRecord, call: Get) -> None:
    """A read confirms every deletion, so that lists and watches that omit pods do no harm by themselves."""


_deliver = UpdateDelivery._deliver

PLANTED: dict[str, tuple[Any, str, Any]] = {
    "acts before the commit": (TaskPodsLifecycleManager, "_reconcile", _act_before_commit),
    "pods without a finalizer": (process, "pod_body", _body_without_finalizer),
    "releases pods without deleting them": (ApiCallExecutor, "_release", _release_without_delete),
    "pods not seen before the first list do not exist": (lifecycle, "observe", _observe_before_list),
    "an update of a running task is not accounted": (task_table, "_has_equal_counts", _ignore_next_resources),
    "updates are marked delivered before the call": (UpdateDelivery, "_deliver", _confirm_first),
    "an existing name counts as a rejection": (ApiCallExecutor, "_get_own_pod", _reject_existing_name),
    "a terminating pod counts as stopped": (TaskPodsLifecycleManager, "_observation", _take_terminating_for_stopped),
    "a failed commit is dropped": (TaskTable, "commit", _drop_failed_commit),
    "a pod that lists omit counts as deleted": (ApiCallExecutor, "_get", _read_no_pod),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_planted_bug_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, bug = PLANTED[planted]
    monkeypatch.setattr(owner, name, bug)
    assert any(_fails(drawn(seed)) for seed in range(400)), "no scenario has found the bug"


def _fails(story: TaskScenario) -> bool:
    try:
        run(play(story))
    except (AssertionError, ExceptionGroup, UnknownTask):
        return True
    return False
