"""Evaluation of events for unschedulable pods by the queueing hints of all profiles.

Hints are called once for each group of pods for which they return the same, except for the pod that the event is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyscheduler.api.events import ClusterEvent
from pyscheduler.api.pod import Pod
from pyscheduler.api.queued import QueuedPod
from pyscheduler.core.queue.backlog import Move
from pyscheduler.core.queue.hints import Hints, HintScope, ObjectKey, QueueingStrategy, is_wildcard, object_key
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup
from pyscheduler.core.queue.rejections import ProfilePlugin
from pyscheduler.core.queue.unschedulable import HintGroup, UnschedulablePods

_STRONGEST_FIRST = (QueueingStrategy.IMMEDIATELY, QueueingStrategy.AFTER_BACKOFF)
Candidate = tuple[QueuedPod, QueueingStrategy | None]
"""Pod in the unschedulable tier, and the effect of an event on it if that is evaluated already."""


class EventEvaluator:
    """Effects of events on pods, by the hints of their profiles."""

    def __init__(self, hints: Mapping[str, Hints]) -> None:
        """`hints` are those of each profile by its name."""
        self._hints = hints

    def scope_of(self, queued: QueuedPod) -> HintScope:
        """Return what the hints of a pod's rejectors read of it."""
        return self._hints[queued.pod.scheduler_name].scope_of(queued.rejectors)

    def registered_plugins(self, event: ClusterEvent) -> list[ProfilePlugin] | None:
        """Return the (profile, plugin) pairs that registered for the event; None for an event without hints."""
        if is_wildcard(event):
            return None
        return [(name, plugin) for name, hints in self._hints.items() for plugin in hints.interested(event)]

    def is_narrowed(self, plugin: ProfilePlugin, event: ClusterEvent) -> bool:
        """Return True if the event concerns only those of the pods rejected by the plugin that use its object."""
        profile, name = plugin
        return self._hints[profile].is_narrowed(name, event)

    def are_narrowed(self, plugins: Sequence[ProfilePlugin] | None, event: ClusterEvent) -> bool:
        """Return True if that is so for all of these plugins; None stands for all pods."""
        return plugins is not None and all(self.is_narrowed(plugin, event) for plugin in plugins)

    def objects_of(self, plugin: ProfilePlugin, queued: QueuedPod) -> list[ObjectKey] | None:
        """Return the objects of narrowed events that the pod uses; None if all events may concern it."""
        profile, name = plugin
        return None if isinstance(queued, QueuedPodGroup) else self._hints[profile].objects_of(name, queued)

    def strategy(self, queued: QueuedPod, event: ClusterEvent) -> QueueingStrategy:
        """Return the effect of the event on a pod, or the strongest one on any member of a pod group."""
        hints = self._hints[queued.pod.scheduler_name]
        if not isinstance(queued, QueuedPodGroup) or is_wildcard(event):
            return hints.evaluate(queued, event)
        strategies = {hints.evaluate(queued, event, pod) for pod in _concerned_members(queued, hints, event)}
        return next((how for how in _STRONGEST_FIRST if how in strategies), QueueingStrategy.SKIP)

    def strategy_since(self, queued: QueuedPod, events: Sequence[ClusterEvent] | None) -> QueueingStrategy:
        """Return the strongest effect of the events during the attempt that rejected a pod; None: some were dropped."""
        if events is None or not queued.rejectors:
            return QueueingStrategy.AFTER_BACKOFF
        strongest = QueueingStrategy.SKIP
        for event in events:
            strategy = self.strategy(queued, event)
            if strategy is not QueueingStrategy.SKIP:
                strongest = strategy
                if strategy is QueueingStrategy.IMMEDIATELY or not queued.pending_plugins:
                    break
        return strongest

    def strategy_in_group(self, queued: QueuedPod, group: HintGroup, move: Move) -> QueueingStrategy:
        """Return the effect on a pod of the group, which all of them share."""
        shared = None if queued.pod.uid == move.pod_uid else self._shared_strategy(group, move)
        return self.strategy(queued, move.event) if shared is None else shared

    def candidates(self, move: Move, pods: UnschedulablePods) -> Iterator[Candidate | None]:
        """Iterate over the pods that the event may requeue, with None for each group that was evaluated.

        Each has the effect of the event if that is evaluated already. Pods added after the first slice are up to date.
        """
        if move.plugins is not None:
            for plugin in move.plugins:
                helped: list[tuple[int, QueuedPod, QueueingStrategy | None]] = []
                for group in pods.groups_held_by(plugin, move.event, narrowed=self.is_narrowed(plugin, move.event)):
                    if group.key in move.strategies:
                        continue  # a group of another plugin, too
                    strategy = self._shared_strategy(group, move)
                    own = group.pods.get(move.pod_uid)
                    if strategy is not QueueingStrategy.SKIP:
                        helped += [
                            (arrival, queued, None if own is not None and queued is own[1] else strategy)
                            for arrival, queued in group.pods.values()
                        ]
                    elif own is not None:
                        helped.append((*own, None))
                    if strategy is not None:
                        yield None
                yield from ((queued, strategy) for _, queued, strategy in sorted(helped))
            return
        yield from ((queued, None) for queued in pods.pods(gated=False))
        if move.with_gated:
            yield from ((queued, None) for queued in pods.pods(gated=True))

    def _shared_strategy(self, group: HintGroup, move: Move) -> QueueingStrategy | None:
        """Return the effect on all pods of the group but the event's own; None if each has to be evaluated."""
        strategy = move.strategies.get(group.key)
        if strategy is None and (representative := group.representative(move.pod_uid)) is not None:
            strategy = move.strategies[group.key] = self.strategy(representative, move.event)
        return strategy


def _concerned_members(group: QueuedPodGroup, hints: Hints, event: ClusterEvent) -> Iterator[Pod]:
    """Yield a pending member for each signature, and those that use the event's object: the others' hints differ."""
    yield from group.templates()
    if key := object_key(event):
        if group.users is None:
            group.users = {}
            for queued in group.members.values():
                for used in hints.all_objects_of(queued):
                    group.users.setdefault(used, []).append(queued.pod)
        yield from group.users.get(key, ())
