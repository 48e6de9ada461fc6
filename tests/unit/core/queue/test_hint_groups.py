"""Queueing hints of pods with equal rejectors: called once for all pods of which the hints read the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyscheduler.api import Action, ClusterEvent, ClusterEventWithHint, Pod, QueueingHint
from pyscheduler.core.queue.hints import HintScope
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import POD_DELETED, QueueFixture

PODS = [pod(name).label("index", label).priority(5).build() for name, label in (("a", "0"), ("b", "1"), ("c", "0"))]


class Groups(QueueFixture):
    """Queue of pods rejected by plugins with a hint that records its calls."""

    def __init__(self, scope: HintScope, *helped: str) -> None:
        self.hinted: list[str] = []
        self.helped = helped
        events = (
            ("Fit", ClusterEventWithHint("Pod", Action.DELETE, self.hint)),
            (
                "Taints",
                ClusterEventWithHint("Pod", Action.DELETE, self.hint),
            ),
        )
        super().__init__(events, scopes={"Fit": scope, "Taints": scope})

    def hint(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        self.hinted.append(pod.name)
        return QueueingHint.QUEUE if pod.name in self.helped else QueueingHint.SKIP

    def reject(self, pods: Sequence[Pod], *rejected_by: str) -> None:
        self.add(*pods)
        for _ in pods:
            self.try_and_fail(*rejected_by)

    def pop_woken(self) -> list[str]:
        self.pass_to(self.now + 2)
        return self.pop_all()


@pytest.mark.parametrize(
    ("scope", "hinted"),
    [
        (HintScope.POD, ["a", "b", "c"]),
        (HintScope.SIGNATURE, ["a", "b"]),
        (HintScope.SIGNATURE_GROUP, ["a"]),
    ],
)
def test_hint_is_called_once_for_the_pods_of_which_it_reads_the_same(scope: HintScope, hinted: list[str]) -> None:
    groups = Groups(scope)
    groups.reject(PODS, "Fit")
    assert groups.move(POD_DELETED) == 0
    assert groups.hinted == hinted
    assert groups.move(POD_DELETED) == 0
    assert groups.hinted == 2 * hinted, "each event is evaluated"


def test_pods_with_other_rejectors_are_evaluated_on_their_own() -> None:
    groups = Groups(HintScope.SIGNATURE_GROUP)
    for each, rejected_by in zip(PODS, (["Fit"], ["Taints"], ["Fit", "Taints"]), strict=True):
        groups.reject([each], *rejected_by)
    groups.move(POD_DELETED)
    assert groups.hinted == ["a", "c", "c", "b"], "the hints of both plugins of c are called once"


def test_all_pods_of_a_group_are_requeued_in_the_order_of_their_arrival() -> None:
    groups = Groups(HintScope.SIGNATURE, "a", "b")
    groups.reject(PODS, "Fit")
    assert groups.move(POD_DELETED) == 3
    assert groups.hinted == ["a", "b"]
    assert groups.pop_woken() == ["a", "b", "c"]


def test_pod_that_the_event_is_about_is_evaluated_alone() -> None:
    groups = Groups(HintScope.SIGNATURE_GROUP, "a")
    groups.reject(PODS, "Fit")
    assert groups.move(ClusterEvent("AssignedPod", Action.DELETE, old=PODS[0])) == 1
    assert groups.hinted == ["b", "a"]
    assert groups.pop_woken() == ["a"]


def test_new_version_of_a_pod_joins_the_group_of_its_signature() -> None:
    groups = Groups(HintScope.SIGNATURE, "b")
    groups.reject(PODS[:2], "Fit")
    relabelled = pod("a").label("index", "1").priority(5).build()
    groups.queue.update(PODS[0], relabelled, [], groups.now)
    assert groups.move(POD_DELETED) == 2
    assert groups.hinted == ["b"]
    assert groups.pop_woken() == ["a", "b"], "it keeps its place"
