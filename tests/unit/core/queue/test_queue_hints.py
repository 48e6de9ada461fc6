"""Matching of event registrations, and the effect of an event on a pod."""

from __future__ import annotations

import pytest

from pyscheduler.api import (
    ANYTHING,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NoArgs,
    NodeInfo,
    Pod,
    QueuedPod,
    QueueingHint,
    Reads,
)
from pyscheduler.api.events import QueueingHintFn
from pyscheduler.core.queue.hints import Hints, HintScope, QueueingStrategy
from pyscheduler.testing.builders import pod
from tests.unit.core.queue.queue_fixture import NO_HANDLE, NODE_ADDED, Report, always, broken, never


def evaluate(
    *events_to_register: tuple[str, QueueingHintFn | None],
    rejected: str = "",
    pending: str = "",
    event: ClusterEvent = NODE_ADDED,
    report: Report | None = None,
) -> QueueingStrategy:
    """Return the effect of the event on a pod rejected by the plugins of these letters; all register for new nodes."""
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
        ("Pod", Action.UPDATE, ClusterEvent("UnscheduledPod", Action.UPDATE), True),
        ("Pod", Action.UPDATE_POD_LABEL, ClusterEvent("UnscheduledPod", Action.UPDATE), False),
        ("*", Action.DELETE, ClusterEvent("AssignedPod", Action.DELETE), True),
        ("*", Action.ALL, ClusterEvent("example.com/Gadget", Action.UPDATE), True),
    ],
)
def test_registration_covers_events_with_all_of_its_actions(
    resource: str, actions: Action, event: ClusterEvent, expected: bool
) -> None:
    assert ClusterEventWithHint(resource, actions).covers(event) is expected


def test_only_hints_of_plugins_that_rejected_the_pod_count() -> None:
    assert evaluate(("F", always), rejected="F") is QueueingStrategy.AFTER_BACKOFF
    assert evaluate(("F", never), ("G", always), rejected="F") is QueueingStrategy.SKIP
    assert evaluate(("F", never), ("G", always), rejected="FG") is QueueingStrategy.AFTER_BACKOFF


def test_registration_without_a_hint_always_requeues() -> None:
    assert evaluate(("F", None), rejected="F") is QueueingStrategy.AFTER_BACKOFF


def test_one_of_the_hints_of_a_plugin_is_enough() -> None:
    assert evaluate(("F", never), ("F", always), rejected="F") is QueueingStrategy.AFTER_BACKOFF


def test_event_of_a_pending_plugin_skips_the_backoff() -> None:
    assert evaluate(("P", always), pending="P") is QueueingStrategy.IMMEDIATELY
    assert evaluate(("F", always), ("P", always), rejected="F", pending="P") is QueueingStrategy.IMMEDIATELY
    assert evaluate(("F", always), ("P", never), rejected="F", pending="P") is QueueingStrategy.AFTER_BACKOFF
    assert evaluate(("P", always), rejected="P", pending="P") is QueueingStrategy.IMMEDIATELY


def test_pod_without_rejectors_is_retried_after_its_backoff() -> None:
    assert evaluate(("F", never)) is QueueingStrategy.AFTER_BACKOFF


def test_hint_that_raises_requeues_the_pod_and_is_reported() -> None:
    report = Report()
    assert evaluate(("F", broken), rejected="F", report=report) is QueueingStrategy.AFTER_BACKOFF
    assert report.failures == [("F", "QueueingHint")]


def test_hint_is_called_with_the_pod_and_the_event() -> None:
    calls: list[tuple[str, ClusterEvent]] = []

    def record(pod: Pod, event: ClusterEvent) -> QueueingHint:
        calls.append((pod.name, event))
        return QueueingHint.SKIP

    evaluate(("F", record), rejected="F")
    assert calls == [("pod", NODE_ADDED)]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (None, QueueingStrategy.AFTER_BACKOFF),
        (pod("pod").build(), QueueingStrategy.AFTER_BACKOFF),
        (pod("other").build(), QueueingStrategy.SKIP),
        ({"kind": "Gadget"}, QueueingStrategy.SKIP),
    ],
    ids=["no object", "the pod itself", "another pod", "another kind"],
)
def test_wildcard_event_is_for_all_pods_or_one_and_calls_no_hint(new: object, expected: QueueingStrategy) -> None:
    event = ClusterEvent("*", Action.ALL, new=new)
    assert evaluate(("F", broken), rejected="F", event=event) is expected


def test_plugin_that_registers_for_new_nodes_is_not_registered_for_taints() -> None:
    """kube-scheduler 1.36 added the registration for taints; 1.37 does not."""
    taint = ClusterEvent("Node", Action.UPDATE_NODE_TAINT)
    assert evaluate(("F", never), rejected="F", event=taint) is QueueingStrategy.SKIP
    explicit = [("F", ClusterEventWithHint("Node", Action.ADD | Action.UPDATE_NODE_TAINT))]
    queued = QueuedPod(pod().build(), 0.0, unschedulable_plugins=frozenset({"F"}))
    assert Hints(explicit, Report()).evaluate(queued, taint) is QueueingStrategy.AFTER_BACKOFF


def test_plugin_registered_for_anything_is_interested_in_every_event() -> None:
    hints = Hints([("F", ANYTHING), ("G", ClusterEventWithHint("Node", Action.ADD))], Report())
    assert list(hints.interested(ClusterEvent("AssignedPod", Action.DELETE))) == ["F"]
    assert list(hints.interested(NODE_ADDED)) == ["F", "G"]


class _Reader(FilterPlugin):
    """Filter plugin of which a test sets what it reads."""

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> None:
        return None


@pytest.mark.parametrize(
    ("attributes", "scope"),
    [
        ({}, HintScope.POD),
        ({"reads": Reads.DOMAINS}, HintScope.SIGNATURE),
        ({"reads": Reads.DOMAINS, "reads_identity": True}, HintScope.POD),
        ({"reads": Reads.OWN_NODE, "reads_labels": False, "reads_claims": False}, HintScope.SIGNATURE),
        (
            {"reads": Reads.OWN_NODE, "reads_labels": False, "reads_claims": False, "reads_match_fields": False},
            HintScope.SIGNATURE_GROUP,
        ),
    ],
)
def test_hints_read_no_more_than_cached_results_depend_on(attributes: dict[str, object], scope: HintScope) -> None:
    plugin = type("Reader", (_Reader,), {"name": "Reader", **attributes})(NoArgs(), NO_HANDLE)
    assert HintScope.of(plugin) is scope
