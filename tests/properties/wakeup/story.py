"""A cluster with random events, each followed by a check of the parked pods.

A story depends on its seed and number; each event has its own generator, so that events can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import Evict
from tests.properties.wakeup import nodes, objects, pods
from tests.properties.wakeup.cluster import Cluster
from tests.properties.wakeup.parked import Missed, missed, parked

EVENTS = 40
"""Number of events of a story."""
Event = Callable[[Cluster], str]

_EVERYWHERE: dict[Event, int] = {
    pods.create_pending: 10,
    pods.create_assigned: 6,
    pods.delete: 2,
    pods.delete_assigned: 6,
    pods.delete_terminating: 5,
    pods.begin_terminating: 4,
    pods.end: 2,
    pods.relabel: 5,
    pods.resize: 4,
    pods.tolerate: 2,
    pods.lift_gates: 2,
    pods.nominate: 3,
    pods.change_nominated: 3,
    pods.bind: 2,
    pods.touch: 1,
    nodes.create: 5,
    nodes.delete: 3,
    nodes.redraw: 4,
    nodes.relabel: 6,
    nodes.taint: 4,
    nodes.cordon: 4,
    nodes.resize: 6,
    nodes.report: 1,
    objects.relabel_namespace: 4,
    objects.replace_namespace: 2,
    objects.change_device_class: 1,
}
_OF_GROUP: dict[str, dict[Event, int]] = {
    "volumes": {
        objects.create_volume: 5,
        objects.pin_volume: 4,
        objects.change_volume: 10,
        objects.change_claim: 8,
        objects.create_claim: 5,
        objects.bind_claim: 8,
        objects.change_class: 3,
        objects.restore_classes: 3,
        objects.change_driver: 3,
        objects.change_capacity: 5,
        objects.change_csi_node: 8,
        objects.change_attachment: 4,
        objects.delete_object: 10,
    },
    "owners": {objects.change_owner: 8, objects.draw_owners: 3, pods.adopt: 5, objects.delete_object: 5},
    "budgets": {objects.change_budgets: 4, objects.delete_object: 2},
    "resize": {pods.finish_resize: 6},
    "declared": {nodes.declare: 8},
}


@dataclass
class Story:
    """The events of a story, and the pods that missed the last one."""

    number: int
    lines: list[str] = field(default_factory=list)
    events: int = 0
    looks: int = 0
    """Number of evaluations of parked pods."""
    missed: list[Missed] = field(default_factory=list)


def play(seed: int, feature: str, number: int, skipped: Collection[int] = ()) -> Story:
    """Play events up to the first after which a pod stays parked although an attempt would succeed."""
    story, cluster = Story(number), Cluster(f"{seed}/{number}", feature)
    cluster.settle()
    if _check(cluster, story):
        story.lines.append("    after the initial objects")
        return story
    events = _events(cluster)
    for step in range(EVENTS):
        if step in skipped:
            continue
        cluster.generated.rng = Random(f"{seed}/{number}/{step}")
        _reject_some(cluster)
        what = _draw(cluster, events)
        if not what:
            continue
        story.events += 1
        story.lines.append(f"{step:3} {what}")
        if _check(cluster, story):
            break
        made = len(cluster.harness.commands)
        cluster.settle()
        if len(cluster.harness.commands) > made and _check(cluster, story):
            story.lines.append("    after the attempts that followed")
            break
    return story


def _events(cluster: Cluster) -> dict[Event, int]:
    events = dict(_EVERYWHERE)
    for group in cluster.groups:
        events |= _OF_GROUP.get(group, {})
    return events


def _draw(cluster: Cluster, events: dict[Event, int]) -> str:
    """Apply the first possible event out of four random ones."""
    for event in cluster.generated.rng.choices(list(events), list(events.values()), k=4):
        if what := event(cluster):
            return what
    return ""


def _check(cluster: Cluster, story: Story) -> bool:
    story.looks += parked(cluster.context)
    preemptors = {command.preemptor.uid for command in cluster.harness.commands if isinstance(command, Evict)}
    story.missed = missed(cluster.context, preemptors)
    return bool(story.missed)


def _reject_some(cluster: Cluster) -> None:
    """Let the API server reject some bindings and evictions until the next event."""
    rng = cluster.generated.rng

    def binding(pod: Pod, node: str) -> str:
        return "refused" if rng.random() < rejection_rate else ""

    def eviction(victim: Pod) -> str:
        return "refused" if rng.random() < rejection_rate else ""

    rejection_rate = 0.5 if rng.random() < 0.1 else 0.0
    cluster.harness.binding_error, cluster.harness.eviction_error = binding, eviction


def shortened(seed: int, feature: str, story: Story) -> Story:
    """Leave out the events that are not needed, trying each once."""
    skipped: set[int] = set()
    for step in reversed(range(EVENTS)):
        shorter = play(seed, feature, story.number, {*skipped, step})
        if shorter.missed:
            skipped.add(step)
            story = shorter
    return story
