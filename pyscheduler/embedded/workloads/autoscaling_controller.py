"""Asyncio driver of the controller of HorizontalPodAutoscalers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Final

from pyscheduler.clock import Clock
from pyscheduler.embedded.client import Informer, WorkQueue
from pyscheduler.embedded.client.kinds import AUTOSCALERS
from pyscheduler.embedded.objects import Json, Key, labels_of
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.workloads.apply_actions import apply_actions
from pyscheduler.embedded.workloads.autoscaling import ScaleTarget, ScalingHistory, reconcile
from pyscheduler.embedded.workloads.objects import is_active, is_ready, key_of, uid_of
from pyscheduler.embedded.workloads.recorder import EventRecorder
from pyscheduler.kube.object_client import ObjectClient
from pyscheduler.kube.reflector import Watched

BATCH_SECONDS: Final = 0.5
"""Time for which changes of pods and of targets are collected: a rollout changes many at once."""
_Reference = tuple[str, str, str]
"""Kind, namespace and name of a target."""


class AutoscalingController:
    """Controller of HorizontalPodAutoscalers. The caller runs the informers; `targets` are those by kind."""

    def __init__(
        self, client: ObjectClient, clock: Clock, pods: Informer[Json], targets: Mapping[str, Informer[Json]]
    ) -> None:
        self._client, self._clock, self._pods, self._targets = client, clock, pods, targets
        self._autoscalers = Informer(Watched(AUTOSCALERS), Json)
        self.informers = (self._autoscalers,)
        self._by_target: dict[_Reference, set[Key]] = {}
        self._in_namespace: dict[str, set[_Reference]] = {}
        self._history: dict[Key, tuple[str, ScalingHistory]] = {}
        """UID and history of each autoscaler."""
        self._recorder = EventRecorder(client, clock)
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self._autoscalers.listeners.append(self._on_autoscaler)
        pods.listeners.append(self._on_pod)
        for kind, informer in targets.items():
            informer.listeners.append(partial(self._on_target, kind))

    async def reconcile(self, key: Key) -> None:
        """Reconcile one autoscaler."""
        autoscaler = self._autoscalers.objects.get(key)
        if autoscaler is None:
            self.queue.forget(key)
            self._history.pop(key, None)
            return
        uid, history = self._history.get(key, ("", ScalingHistory()))
        plan, history = reconcile(
            autoscaler, self._target(autoscaler), self._clock.wall(), history if uid == uid_of(autoscaler) else None
        )
        self._history[key] = uid_of(autoscaler), history
        await apply_actions(self._client, plan.actions, recorder=self._recorder)
        if plan.requeue_at < math.inf:
            self.queue.add_at(key, plan.requeue_at)

    def _target(self, autoscaler: Json) -> ScaleTarget | None:
        kind, namespace, name = _reference(autoscaler)
        informer = self._targets.get(kind)
        obj = informer.objects.get((namespace, name)) if informer is not None else None
        if informer is None or obj is None:
            return None
        selects = selector_test(_selector(obj))
        pods = [
            pod
            for (each, _), pod in self._pods.objects.items()
            if each == namespace and is_active(pod) and selects(labels_of(pod))
        ]
        return ScaleTarget(informer.kind, obj, pods)

    def _on_autoscaler(self, before: Json | None, after: Json | None) -> None:
        if before is not None:
            reference = _reference(before)
            keys = self._by_target.get(reference, set())
            keys.discard(key_of(before))
            if not keys:
                self._by_target.pop(reference, None)
                self._in_namespace.get(reference[1], set()).discard(reference)
        if after is not None:
            reference = _reference(after)
            self._by_target.setdefault(reference, set()).add(key_of(after))
            self._in_namespace.setdefault(reference[1], set()).add(reference)
        for each in (before, after):
            if each is not None:
                self.queue.add(key_of(each))

    def _on_target(self, kind: str, before: Json | None, after: Json | None) -> None:
        obj = after if after is not None else before
        if obj is not None:
            self._queue_later((kind, *key_of(obj)))

    def _on_pod(self, before: Json | None, after: Json | None) -> None:
        pod = after if after is not None else before
        if pod is None or (before is not None and after is not None and is_ready(before) == is_ready(after)):
            return
        for reference in self._in_namespace.get(key_of(pod)[0], ()):
            informer = self._targets.get(reference[0])
            obj = informer.objects.get(reference[1:]) if informer is not None else None
            if obj is not None and selector_test(_selector(obj))(labels_of(pod)):
                self._queue_later(reference)

    def _queue_later(self, reference: _Reference) -> None:
        for key in self._by_target.get(reference, ()):
            self.queue.add_at(key, self._clock.wall() + BATCH_SECONDS)


def _reference(autoscaler: Json) -> _Reference:
    target = autoscaler["spec"]["scaleTargetRef"]
    return target["kind"], key_of(autoscaler)[0], target["name"]


def _selector(obj: Json) -> Json:
    """Return the selector of a workload; that of a ReplicationController has labels only."""
    selector: Json = obj["spec"].get("selector") or {}
    return {"matchLabels": selector} if obj.get("kind") == "ReplicationController" else selector
