"""Faults of a chaos run outside of the backend's process: watches that break, pods that other clients change."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from pyscheduler.backend.template import BACKEND
from tests.e2e.client import ApiClient, ApiError
from tests.faults.fault_actions import GONE, cut_after, gone_event, reject, send_lines, send_lines_then_hang
from tests.faults.proxy import FaultProxy
from tests.faults.request_matchers import ProxiedRequest, watches
from tests.faults.waiting import until
from tests.tasks.audit import may_delete, may_relabel
from tests.tasks.witness import SeenPod, Witness

DROP_INTERVAL = (1.0, 4.0)
"""Least and most seconds between two drops of the backend's watches."""
CHANGES_AT_ONCE = 4
_CONCURRENT = (404, 409)
"""Status of a call for a pod that the backend has released meanwhile."""


def pod_watches(namespace: str, request: ProxiedRequest) -> bool:
    """Match the watches of the pods of a namespace."""
    return watches("pods")(request) and f"/namespaces/{namespace}/" in request.path


@dataclass
class ChaosFaults:
    """Faults of one run and their numbers."""

    api: ApiClient
    namespace: str
    proxy: FaultProxy
    witness: Witness
    rng: random.Random
    tasks: int
    expiring: int
    """Number of watches rejected with 410, and number of watches that end with a 410 event."""
    silence_interval: tuple[float, float]
    """Least and most seconds between two silent deaths of the backend's watches."""
    timeout: float
    dropped: int = 0
    silenced: int = 0
    expired: int = 0
    deletions: Counter[str] = field(default_factory=Counter)
    """Pods deleted by another client, by task."""
    relabelled: Counter[str] = field(default_factory=Counter)
    """Pods without their label, which another client has removed, by name."""

    def work(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """Return a coroutine for each kind of fault; most run until cancelled."""
        changes = (self._delete_pods(), self._remove_labels())
        return self._drop_watches(), self._silence_watches(), self._expire_watches(), *changes

    def figures(self) -> dict[str, int]:
        """Return the numbers of faults."""
        return {
            "watchesDropped": self.dropped,
            "watchesSilenced": self.silenced,
            "expired": self.expired,
            "podsDeletedByOthers": self.deletions.total(),
            "labelsRemoved": self.relabelled.total(),
        }

    def _is_watch(self, request: ProxiedRequest) -> bool:
        return pod_watches(self.namespace, request)

    async def _drop_watches(self) -> None:
        """Cut open watches, and cut some new ones after a few lines."""
        while True:
            await asyncio.sleep(self.rng.uniform(*DROP_INTERVAL))
            self.dropped += self.proxy.cut(self._is_watch)
            if self.rng.random() < 0.3:
                with self.proxy.rule(self._is_watch, cut_after(10), 1):
                    await asyncio.sleep(0.5)

    async def _silence_watches(self) -> None:
        """Let watches die silently: the connection stays open, and nothing arrives any more."""
        while True:
            await asyncio.sleep(self.rng.uniform(*self.silence_interval))
            with self.proxy.rule(self._is_watch, send_lines_then_hang(), 1) as rule:
                self.proxy.cut(self._is_watch)
                await asyncio.sleep(4.0)
                self.silenced += len(rule.matched)

    async def _expire_watches(self) -> None:
        """Let watches fail with 410 Gone, as a status and as an event."""

        async def begun() -> bool:
            return self.witness.ended >= self.tasks * 0.2

        await until(begun, self.timeout)
        for fault in (reject(GONE), send_lines(gone_event(), after=5)) * self.expiring:
            with self.proxy.rule(self._is_watch, fault, 1) as rule:
                self.proxy.cut(self._is_watch)
                await rule.wait_matched(1, seconds=60.0)
                self.expired += 1

    async def _delete_pods(self) -> None:
        """Delete running pods of some tasks, like another client."""
        while True:
            victims = [pod for pod in list(self.witness.pods.values()) if may_delete(pod, self.deletions)]
            for pod in victims[:CHANGES_AT_ONCE]:
                self.deletions[pod.task] += 1
                await self._delete(pod)
            await asyncio.sleep(0.2)

    async def _delete(self, pod: SeenPod) -> None:
        try:
            await self.api.delete(self._path(pod), {"preconditions": {"uid": pod.uid}})
        except ApiError as problem:
            if problem.status not in _CONCURRENT:
                raise

    async def _remove_labels(self) -> None:
        """Remove the backend's label of running pods, and of failed ones that are kept for a time."""
        while True:
            chosen = [pod for pod in list(self.witness.pods.values()) if may_relabel(pod, self.relabelled)]
            for pod in chosen[:CHANGES_AT_ONCE]:
                try:
                    await self.api.patch(self._path(pod), {"metadata": {"uid": pod.uid, "labels": {BACKEND: None}}})
                except ApiError as problem:
                    if problem.status not in _CONCURRENT:
                        raise
                else:
                    self.relabelled[pod.name] += 1
            await asyncio.sleep(0.2)

    def _path(self, pod: SeenPod) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{pod.name}"
