"""Indexes of the store of Volcano's objects, and which objects a change concerns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from pyscheduler.api import ResourceKind
from pyscheduler.controllers.volcano.pods import PodRecord
from pyscheduler.controllers.volcano.store import Key, VolcanoStore

T = TypeVar("T")
POD = PodRecord("ns", "p", "u", "g", scheduler="ours", is_bound=True, requests={"cpu": 1000})
JOB = {"metadata": {"name": "j", "uid": "job-uid"}, "spec": {"schedulerName": "ours"}}
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j"}


class Changes:
    """Recorded changes since the last `take`."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    def add(self, kind: ResourceKind, key: Key) -> None:
        self._keys.append(f"{kind.kind} {'/'.join(filter(None, key))}")

    def take(self) -> set[str]:
        keys, self._keys = set(self._keys), []
        return keys


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def store(changes: Changes) -> VolcanoStore:
    return VolcanoStore({"ours"}, changes.add)


def group(queue: str = "q", phase: str = "Running", **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g"} | meta, "spec": {"queue": queue}, "status": {"phase": phase}}


def queue(state: str = "Open") -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "status": {"state": state}}


def test_pod_changes_its_group_queue_and_job(store: VolcanoStore, changes: Changes) -> None:
    store.set_group(("ns", "g"), group())
    store.set_job(("ns", "j"), JOB)
    changes.take()
    pod = POD._replace(job="job-uid")
    store.set_pod(("ns", "p"), pod)
    assert changes.take() == {"PodGroup ns/g", "Queue q", "Job ns/j"}
    store.set_pod(("ns", "p"), pod)
    assert changes.take() == set()
    store.set_pod(("ns", "p"), None)
    assert changes.take() == {"PodGroup ns/g", "Queue q", "Job ns/j"}


def test_group_that_changes_its_queue_changes_both(store: VolcanoStore, changes: Changes) -> None:
    store.set_pod(("ns", "p"), POD)
    store.set_group(("ns", "g"), group("q"))
    changes.take()
    store.set_group(("ns", "g"), group("r", ownerReferences=[OWNER]))
    assert changes.take() == {"PodGroup ns/g", "Queue q", "Queue r", "Job ns/j"}
    assert (store.allocated("q"), store.allocated("r")) == (Counter(), Counter(cpu=1000))
    assert (list(store.phases("q")), list(store.phases("r"))) == ([], ["Running"])


def test_closed_queue_changes_its_groups(store: VolcanoStore, changes: Changes) -> None:
    store.set_queue(("", "q"), queue())
    store.set_group(("ns", "g"), group())
    changes.take()
    store.set_queue(("", "q"), queue("Closed"))
    assert changes.take() == {"Queue q", "PodGroup ns/g"}
    assert not store.is_queue_open("q")
    store.set_queue(("", "q"), {**queue("Closed"), "spec": {"weight": 2}})
    assert changes.take() == {"Queue q"}


def test_default_queue_is_open_without_an_object(store: VolcanoStore) -> None:
    assert [store.is_queue_open("default"), store.is_queue_open("q")] == [True, False]


def test_pod_without_a_group_counts_for_its_own_queue(store: VolcanoStore) -> None:
    store.set_pod(("ns", "p"), POD._replace(group="", queue="q"))
    assert store.allocated("q") == Counter(cpu=1000)
    store.set_pod(("ns", "p"), POD._replace(group="", queue="q", phase="Succeeded"))
    assert store.allocated("q") == Counter()


def test_group_belongs_to_the_scheduler_of_its_pods(store: VolcanoStore) -> None:
    key = ("ns", "g")
    assert not store.has_our_group(key)
    store.set_group(key, group())
    assert store.has_our_group(key)
    store.set_pod(("ns", "p"), POD._replace(scheduler="volcano"))
    assert not store.has_our_group(key)


def test_groups_and_pods_of_other_schedulers_count_for_no_queue(store: VolcanoStore) -> None:
    for name, scheduler in (("ours", "ours"), ("theirs", "volcano")):
        store.set_group(("ns", name), group(name=name))
        store.set_pod(("ns", name), POD._replace(name=name, group=name, scheduler=scheduler))
        alone = POD._replace(name=f"{name}-alone", group="", queue="q", scheduler=scheduler)
        store.set_pod(("ns", alone.name), alone)
    assert list(store.phases("q")) == ["Running"]
    assert store.allocated("q") == Counter(cpu=2000)


def test_group_without_pods_belongs_to_the_scheduler_of_its_job(store: VolcanoStore) -> None:
    key = ("ns", "g")
    store.set_group(key, group(ownerReferences=[OWNER]))
    assert not store.has_our_group(key)
    store.set_job(("ns", "j"), JOB)
    assert store.has_our_group(key)
    store.set_job(("ns", "j"), {**JOB, "spec": {"schedulerName": "volcano"}})
    assert (store.has_our_group(key), store.has_our_job(("ns", "j"))) == (False, False)


def change(objects: dict[Key, T], key: Key, value: T | None, store: Callable[[Key, T | None], None]) -> None:
    """Store an object or its deletion, in both."""
    objects.pop(key, None)
    if value is not None:
        objects[key] = value
    store(key, value)


def test_indexes_equal_those_of_a_new_store_after_random_changes() -> None:
    rng = random.Random(0)
    changed = VolcanoStore({"ours"}, lambda *_: None)
    pods: dict[Key, PodRecord] = {}
    groups: dict[Key, dict[str, Any]] = {}
    for _ in range(2000):
        key = ("ns", f"p{rng.randrange(8)}")
        pod = PodRecord(
            "ns", key[1], group=rng.choice(["", "g0", "g1"]), queue=rng.choice(["", "q"]), job=rng.choice(["", "j"]),
            scheduler=rng.choice(["ours", "theirs"]),
            is_bound=rng.random() < 0.7, phase=rng.choice(["Pending", "Running", "Failed"]),
            requests={"cpu": rng.randrange(3), rng.choice("xy"): 1},
        )  # fmt: skip
        change(pods, key, pod if rng.random() < 0.7 else None, changed.set_pod)
        name = ("ns", f"g{rng.randrange(2)}")
        change(groups, name, group(rng.choice("qr")) if rng.random() < 0.7 else None, changed.set_group)
        fresh = VolcanoStore({"ours"}, lambda *_: None)
        for at, each in pods.items():
            fresh.set_pod(at, each)
        for at, obj in groups.items():
            fresh.set_group(at, obj)
        for q in "qr":
            assert changed.allocated(q) == fresh.allocated(q)
            assert sorted(changed.phases(q)) == sorted(fresh.phases(q))
        assert {p.name for p in changed.pods_of_job("j")} == {p.name for p in fresh.pods_of_job("j")}
        for at in groups:
            assert {p.name for p in changed.pods_of_group(at)} == {p.name for p in fresh.pods_of_group(at)}
