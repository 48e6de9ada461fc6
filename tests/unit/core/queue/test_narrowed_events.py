"""Events that a plugin narrows to the pods that use their object: the hints of all other pods are not called."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Action, ClusterEvent, ClusterEventWithHint, Pod, PreQueueingHint, QueueingHint
from pyscheduler.core.queue.backlog import Move
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NODE_ADDED, POD_DELETED, QueueFixture

KIND = "Claim"
FREED = ClusterEvent(KIND, Action.DELETE, old={"metadata": {"name": "c9", "namespace": "default"}})


def changed(name: str, namespace: str = "default") -> ClusterEvent:
    return ClusterEvent(KIND, Action.UPDATE, new={"metadata": {"name": name, "namespace": namespace}})


class Claims(QueueFixture):
    """Queue of pods that a plugin rejected; the pod `p1` uses the claim `c1`, and the claims in its label `more`."""

    def __init__(self, *more: tuple[str, ClusterEventWithHint]) -> None:
        self.hinted: list[str] = []
        pre_hint = PreQueueingHint(self.claims_of, lambda event: event.new is None)
        on_claim = ClusterEventWithHint(KIND, Action.UPDATE | Action.DELETE, self.hint, pre_hint)
        super().__init__((("Claims", on_claim), ("Fit", ClusterEventWithHint("Pod", Action.DELETE)), *more))

    def claims_of(self, pod: Pod) -> list[tuple[str, str]]:
        names = [pod.name.replace("p", "c"), *filter(None, pod.labels.get("more", "").split("-"))]
        return [(pod.namespace, name) for name in names]

    def hint(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        self.hinted.append(pod.name)
        key = tuple((event.new or event.old)["metadata"][each] for each in ("namespace", "name"))
        return QueueingHint.QUEUE if event.new is None or key in self.claims_of(pod) else QueueingHint.SKIP

    def reject(self, *pods: Pod, by: str = "Claims") -> None:
        self.add(*pods)
        for _ in pods:
            self.try_and_fail(by)


P1, P2, P3 = (pod(name).build() for name in ("p1", "p2", "p3"))
P2_WITH_BOTH = pod("p2").label("more", "c1-c1").build()


@pytest.mark.parametrize(
    ("event", "hinted"),
    [
        (changed("c2"), ["p2"]),
        (changed("c1"), ["p1", "p2"]),
        (changed("c1", "other"), []),
        (changed("c7"), []),
        (FREED, ["p1", "p2", "p3"]),
    ],
    ids=["of one pod", "of two pods", "in another namespace", "of no pod", "concerns all"],
)
def test_hint_is_called_for_the_pods_that_use_the_object(event: ClusterEvent, hinted: list[str]) -> None:
    claims = Claims()
    claims.reject(P1, P2_WITH_BOTH, P3)
    assert claims.move(event) == len(hinted)
    assert claims.hinted == hinted


def test_updated_pod_is_evaluated_for_the_objects_that_it_uses_now() -> None:
    claims = Claims()
    claims.reject(P1, P2)
    claims.queue.update(P2, P2_WITH_BOTH, (), claims.now)
    assert claims.move(changed("c1")) == 2
    assert claims.move(changed("c1")) == 0, "neither waits any more"


def test_pod_of_another_rejector_is_evaluated_for_that_ones_events_only() -> None:
    claims = Claims()
    claims.reject(P1, by="Fit")
    assert claims.move(changed("c1")) == 0
    assert claims.move(POD_DELETED) == 1
    assert not claims.hinted


def test_event_that_another_registration_covers_is_not_narrowed() -> None:
    claims = Claims(("Claims", ClusterEventWithHint("*", Action.ALL)))
    claims.reject(P1, P2)
    assert claims.move(changed("c7")) == 2
    claims.reject(P3)
    assert claims.move(NODE_ADDED) == 1


def test_narrowed_events_do_not_count_as_too_many() -> None:
    claims = Claims()
    claims.reject(P1, P2)
    for _ in range(3000):
        claims.queue.move_all(changed("c7"), claims.now)
    assert all(isinstance(task, Move) and task.narrowed for task in claims.queue.backlog)
    while claims.queue.backlog:
        assert claims.queue.process_backlog() == 0
    assert not claims.hinted


class BrokenObjects(Claims):
    """Queue with a plugin of which `objects_of` raises or returns `objects`, and `concerns_all` returns `concerned`."""

    def __init__(self, objects: Any, concerned: Any = False) -> None:
        self.objects = objects
        super().__init__()
        pre_hint = PreQueueingHint(partial(self.claims_of), lambda event: concerned)
        on_claim = ClusterEventWithHint(KIND, Action.UPDATE, self.hint, pre_hint)
        QueueFixture.__init__(self, (("Claims", on_claim),))

    def claims_of(self, pod: Pod) -> Any:
        if isinstance(self.objects, Exception):
            raise self.objects
        return self.objects

    def hint(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return QueueingHint.QUEUE


@pytest.mark.parametrize(
    "objects",
    [
        RuntimeError("objects cannot be read"),
        None,
        7,
        "c1",
        [None],
        ["c1"],
        [("default", ["c1"])],
        [("default", "c1", "more")],
        [("default", None)],
        range(3),
    ],
    ids=repr,
)
def test_pod_is_evaluated_for_all_events_if_its_objects_cannot_be_read(objects: Any) -> None:
    claims = BrokenObjects(objects)
    claims.reject(P1, P2)
    assert claims.report.failures == [("Claims", "PreQueueingHint")] * 2
    assert claims.move(changed("c7")) == 2, "a hint that raises counts as Queue"
    assert claims.pop_all() == []
    claims.pass_to(claims.now + 400)
    assert claims.pop_all() == ["p1", "p2"]


def test_event_concerns_all_pods_if_that_cannot_be_determined() -> None:
    claims = BrokenObjects([("default", "c1")], np.zeros(2))
    claims.reject(P1)
    assert claims.move(changed("c7")) == 1
    assert set(claims.report.failures) == {("Claims", "PreQueueingHint")}
