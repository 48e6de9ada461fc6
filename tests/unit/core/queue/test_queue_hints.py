"""Which registrations match which events, and what an event does to a pod."""

from __future__ import annotations

import pytest

from pyscheduler.api import ANYTHING, Action, ClusterEvent, ClusterEventWithHint, Pod, QueuedPod, QueueingHint
from pyscheduler.api.events import QueueingHintFn
from pyscheduler.core.queue.hints import Hints, QueueingStrategy
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NODE_ADDED, Report, always, broken, never


def weigh(
    *events_to_register: tuple[str, QueueingHintFn | None],
    rejected: str = "",
    pending: str = "",
    event: ClusterEvent = NODE_ADDED,
    report: Report | None = None,
) -> QueueingStrategy:
    """What the event does to a pod that the plugins of these letters rejected; all register for new nodes."""
    hints = Hints(
        [(plugin, ClusterEventWithHint("Node", Action.ADD, hint)) for plugin, hint in events_to_register],
        report or Report(),
    )
    return hints.evaluate(
        QueuedPod(pod().build(), 0.0, unschedulable_plugins=frozenset(rejected), pending_plugins=frozenset(pending)),
        event,
    )


@pytest.mark.parametrize(
    ("resource", "actions", "event", "expected"),
    [
        ("Node", Action.ADD, ClusterEvent("Node", Action.ADD), True),
        ("Node", Action.ADD, ClusterEvent("Node", Action.DELETE), False),
        ("Node", Action.ADD, ClusterEvent("CSINode", Action.ADD), False),
        ("Node", Action.ADD | Action.UPDATE_NODE_LABEL, ClusterEvent("Node", Action.UPDATE_NODE_LABEL), True),
        ("Node", Action.UPDATE, ClusterEvent("Node", Action.UPDATE_NODE_LABEL), True),
        ("Pod", Action.ALL, ClusterEvent("AssignedPod", Action.DELETE), True),
        ("Pod", Action.UPDATE, ClusterEvent("UnschedulablePod", Action.UPDATE), True),
        ("Pod", Action.UPDATE_POD_LABEL, ClusterEvent("UnschedulablePod", Action.UPDATE), False),
        ("*", Action.DELETE, ClusterEvent("AssignedPod", Action.DELETE), True),
        ("*", Action.ALL, ClusterEvent("example.com/Gadget", Action.UPDATE), True),
    ],
)
def test_a_registration_matches_events_as_specific_as_itself(
    resource: str, actions: Action, event: ClusterEvent, expected: bool
) -> None:
    assert ClusterEventWithHint(resource, actions).covers(event) is expected


def test_only_plugins_that_rejected_the_pod_are_asked() -> None:
    assert weigh(("F", always), rejected="F") is QueueingStrategy.AFTER_BACKOFF
    assert weigh(("F", never), ("G", always), rejected="F") is QueueingStrategy.SKIP
    assert weigh(("F", never), ("G", always), rejected="FG") is QueueingStrategy.AFTER_BACKOFF


def test_a_registration_without_a_hint_always_helps() -> None:
    assert weigh(("F", None), rejected="F") is QueueingStrategy.AFTER_BACKOFF


def test_one_of_a_plugins_hints_is_enough() -> None:
    assert weigh(("F", never), ("F", always), rejected="F") is QueueingStrategy.AFTER_BACKOFF


def test_what_a_pending_plugin_waited_for_skips_the_backoff() -> None:
    assert weigh(("P", always), pending="P") is QueueingStrategy.IMMEDIATELY
    assert weigh(("F", always), ("P", always), rejected="F", pending="P") is QueueingStrategy.IMMEDIATELY
    assert weigh(("F", always), ("P", never), rejected="F", pending="P") is QueueingStrategy.AFTER_BACKOFF
    assert weigh(("P", always), rejected="P", pending="P") is QueueingStrategy.IMMEDIATELY


def test_a_pod_that_nobody_rejected_is_retried_after_its_backoff() -> None:
    assert weigh(("F", never)) is QueueingStrategy.AFTER_BACKOFF


def test_a_hint_that_raises_counts_as_helpful_and_is_reported() -> None:
    report = Report()
    assert weigh(("F", broken), rejected="F", report=report) is QueueingStrategy.AFTER_BACKOFF
    assert report.failures == [("F", "QueueingHint")]


def test_a_hint_is_given_the_pod_and_the_event() -> None:
    seen: list[tuple[str, ClusterEvent]] = []

    def remember(pod: Pod, event: ClusterEvent) -> QueueingHint:
        seen.append((pod.name, event))
        return QueueingHint.SKIP

    weigh(("F", remember), rejected="F")
    assert seen == [("pod", NODE_ADDED)]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (None, QueueingStrategy.AFTER_BACKOFF),
        (pod("pod").build(), QueueingStrategy.AFTER_BACKOFF),
        (pod("other").build(), QueueingStrategy.SKIP),
        ({"kind": "Gadget"}, QueueingStrategy.SKIP),
    ],
    ids=["nobody", "itself", "another pod", "something else"],
)
def test_a_wildcard_event_is_for_all_or_for_one_pod_and_asks_nobody(new: object, expected: QueueingStrategy) -> None:
    event = ClusterEvent("*", Action.ALL, new=new)
    assert weigh(("F", broken), rejected="F", event=event) is expected


def test_a_plugin_that_asks_for_new_nodes_also_hears_of_taints() -> None:
    taint = ClusterEvent("Node", Action.UPDATE_NODE_TAINT)
    assert weigh(("F", never), rejected="F", event=taint) is QueueingStrategy.AFTER_BACKOFF
    informed = [("F", ClusterEventWithHint("Node", Action.ADD | Action.UPDATE_NODE_TAINT, never))]
    queued = QueuedPod(pod().build(), 0.0, unschedulable_plugins=frozenset({"F"}))
    assert Hints(informed, Report()).evaluate(queued, taint) is QueueingStrategy.SKIP
    deaf = Hints([("F", ClusterEventWithHint("Node", Action.DELETE))], Report())
    assert deaf.evaluate(queued, taint) is QueueingStrategy.SKIP


def test_a_plugin_that_cannot_tell_is_interested_in_everything() -> None:
    hints = Hints([("F", ANYTHING), ("G", ClusterEventWithHint("Node", Action.ADD))], Report())
    assert list(hints.interested(ClusterEvent("AssignedPod", Action.DELETE))) == ["F"]
    assert list(hints.interested(NODE_ADDED)) == ["F", "G"]
