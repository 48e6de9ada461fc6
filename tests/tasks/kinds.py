"""Tasks of a chaos run: behaviour and expected result of each kind."""

from __future__ import annotations

from typing import NamedTuple

from pyscheduler.backend.task import RetryPolicy, TaskSpec

CPU = "100m"
MILLIS = 100


class Kind(NamedTuple):
    """Kind of task: its share in percent, the behaviour of its pods, and the expected result."""

    share: int
    annotations: dict[str, str]
    retry: RetryPolicy
    phases: frozenset[str]
    """Allowed final phases."""
    pods: int
    """Number of pods of such a task, unless another client deletes one."""


def _runs(seconds: float) -> dict[str, str]:
    return {"pyscheduler.io/run-seconds": str(seconds)}


def _fails(seconds: float) -> dict[str, str]:
    return {"pyscheduler.io/fail-after-seconds": str(seconds)}


_ONCE, _TWICE = RetryPolicy(backoff_seconds=0.2), RetryPolicy(application=1, backoff_seconds=0.2)
SUCCEEDS, FAILS, RETRIED = "succeeds", "fails", "retried"
DELETED, RELABELLED, KILLED = "deleted", "relabelled", "killed"
KINDS = {
    SUCCEEDS: Kind(82, _runs(1), _ONCE, frozenset({"Succeeded"}), 1),
    FAILS: Kind(5, _fails(0.5), _ONCE, frozenset({"Failed"}), 1),
    RETRIED: Kind(4, _fails(0.5), _TWICE, frozenset({"Failed"}), 2),
    DELETED: Kind(3, _runs(3), _ONCE, frozenset({"Succeeded"}), 1),
    RELABELLED: Kind(4, _runs(3), _ONCE, frozenset({"Succeeded"}), 1),
    KILLED: Kind(2, _runs(3), _ONCE, frozenset({"Killed", "Succeeded"}), 1),
}
"""Another client deletes one running pod of each `deleted` task and removes the backend's label of the running pod of
each `relabelled` one and of the failed first pod of each `retried` one; the owner kills the `killed` tasks."""


LONG = "long"
"""Kind of the tasks in a namespace that is deleted while they run."""
_LONG_KIND = Kind(0, _runs(600), _ONCE, frozenset({"Failed"}), 1)


def kind_of(task: str) -> str:
    """Return the kind of a task, from its id."""
    return task.partition("-")[0]


def tasks(count: int, pool: str, scheduler: str, kind: str = "") -> list[TaskSpec]:
    """Return `count` tasks of all kinds, evenly mixed, or of the kind `long`."""
    ring = [kind] if kind else [name for name, each in KINDS.items() for _ in range(each.share)]
    names = (ring[i * 37 % len(ring)] for i in range(count))  # 37 and 100 have no factor in common
    return [_task(f"{name}-{i:05}", KINDS.get(name, _LONG_KIND), pool, scheduler) for i, name in enumerate(names)]


def _task(id: str, kind: Kind, pool: str, scheduler: str) -> TaskSpec:
    return TaskSpec(
        id=id,
        image="pause:1",
        cpu=CPU,
        annotations=kind.annotations,
        node_selector={"pool": pool},
        scheduler=scheduler,
        retry=kind.retry,
        owner={"number": int(id.rpartition("-")[2])},
    )
