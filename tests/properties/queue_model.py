"""A deliberately naive scheduling queue: one dict, linear scans, no index, nothing removed from the log.

It defines what the real queue must do. Events are strings, and `WAKES` maps each plugin to the events it registers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

WAKES = {
    "Nodes": {"node added"},  # not taints: kube-scheduler 1.37 registers no plugin for them on its own
    "Fit": {"pod deleted"},
    "Claims": {"claim added", "pod deleted"},
    "Devices": {"even claim allocated", "devices freed"},
    "Gate": {"pod labelled"},
}
INITIAL, MAXIMUM, TIMEOUT, PERIOD, REST, EARLY_POP_PAUSE = 1.0, 10.0, 300.0, 30.0, 0.1, 0.01


def fit_cares(uid: str) -> bool:
    """Return Fit's queueing hint, which skips half of the pods."""
    return int(uid) % 2 == 0


def devices_care(uid: str, event: str) -> bool:
    """Return Devices' queueing hint: half of the pods use the claim `even`, and all may get devices that were freed."""
    return event == "devices freed" or int(uid) % 2 == 0


def nodes_care(priority: int) -> bool:
    """Return Nodes' queueing hint for new nodes, which skips pods of priority 5."""
    return priority == 0


@dataclass
class ModelPod:
    """One pod; `tier` is active, backoff, errors, unschedulable, gated, inflight or "" (not in the queue)."""

    uid: str
    priority: int
    closed: bool
    timestamp: float
    tier: str = ""
    expiry: float = 0.0
    rejections: int = 0
    errors: int = 0
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    popped_at: int | None = None

    @property
    def rank(self) -> tuple[int, float]:
        return (-self.priority, self.timestamp)


class ModelQueue:
    """Every rule of the queue in its simplest form."""

    def __init__(self) -> None:
        self.pods: dict[str, ModelPod] = {}
        self.log: list[tuple[str, str | None]] = []
        self.next_flush = 0.0
        self.failed_at: float | None = None
        """Time of the last failed attempt; None if a pod has been woken since."""

    def tiers(self) -> dict[str, str]:
        public = {"errors": "backoff"}
        return {uid: public.get(pod.tier, pod.tier) for uid, pod in self.pods.items() if pod.tier}

    def rejected_by(self) -> Counter[tuple[str, str]]:
        """Return the number of pods in the tiers by (plugin, scheduler name)."""
        waiting = [pod for pod in self.pods.values() if pod.tier not in ("", "inflight")]
        return Counter((plugin, "default-scheduler") for pod in waiting for plugin in pod.rejectors | pod.pending)

    def place(self, *tiers: str) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.tier in tiers]

    def enter(self, pod: ModelPod) -> None:
        self.pods[pod.uid] = pod
        self.to(pod, "active")

    def to(self, pod: ModelPod, tier: str) -> bool:
        """Move a pod to active or backoff; False if it is gated."""
        if pod.closed:
            pod.rejectors.add("Gate")
            pod.tier = "gated"
            return False
        pod.tier = tier
        if tier == "backoff" and not pod.rejectors | pod.pending:
            pod.tier = "errors"
        return True

    def requeue(self, pod: ModelPod, how: str, now: float) -> bool:
        if how == "skip":
            pod.tier = "unschedulable"
            return False
        tried = pod.rejections + pod.errors > 0
        waits = how == "after backoff" and tried and pod.expiry >= math.floor(now)
        return self.to(pod, "backoff" if waits else "active")

    def weigh(self, pod: ModelPod, event: str, target: str | None) -> str:
        if not pod.rejectors | pod.pending:
            return "after backoff"
        if event == "anything":
            return "after backoff" if target in (None, pod.uid) else "skip"
        woken = {plugin for plugin in pod.rejectors | pod.pending if event in WAKES[plugin]}
        if not fit_cares(pod.uid):
            woken.discard("Fit")
        if not devices_care(pod.uid, event):
            woken.discard("Devices")
        if event == "node added" and not nodes_care(pod.priority):
            woken.discard("Nodes")
        if woken & pod.pending:
            return "immediately"
        return "after backoff" if woken else "skip"

    def best(self, now: float) -> list[ModelPod]:
        """Return the pods that may be popped: more than one if their order is undefined."""
        active = self.place("active")
        if active:
            first = min(pod.rank for pod in active)
            return [pod for pod in active if pod.rank == first]
        return [pod for pod in self.soonest() if self.rested(pod) <= now]

    def rested(self, pod: ModelPod) -> float:
        """Return the time from which the pod may be popped before its backoff ends."""
        return (
            pod.timestamp + REST
            if self.failed_at is None
            else max(pod.timestamp + REST, self.failed_at + EARLY_POP_PAUSE)
        )

    def soonest(self) -> list[ModelPod]:
        """Return the rejected pods with the earliest end of backoff, and of these the ones with the best rank."""
        waiting = self.place("backoff")
        best = min(((pod.expiry, pod.rank) for pod in waiting), default=None)
        return [pod for pod in waiting if (pod.expiry, pod.rank) == best]

    def popped(self, pod: ModelPod) -> None:
        pod.tier = "inflight"
        pod.popped_at = len(self.log)

    def add_unschedulable(self, pod: ModelPod, rejectors: set[str], pending: set[str], now: float) -> None:
        pod.rejectors, pod.pending = set(rejectors), set(pending)
        failed = not rejectors | pending
        pod.errors = pod.errors + 1 if failed else 0
        pod.rejections += not failed
        pod.timestamp = now
        wait = min(INITIAL * 2 ** ((pod.errors or pod.rejections) - 1), MAXIMUM)
        pod.expiry = math.floor(now + wait)
        how = "after backoff"
        if not failed and pod.popped_at is not None:
            answers = {self.weigh(pod, *event) for event in self.log[pod.popped_at :]}
            how = next((each for each in ("immediately", "after backoff") if each in answers), "skip")
        pod.popped_at = None
        self.failed_at = now
        self.requeue(pod, how, now)

    def update(self, pod: ModelPod, closed: bool, events: Iterable[str], now: float) -> None:
        pod.closed = closed
        if pod.tier == "inflight":
            self.log += [(event, pod.uid) for event in events]
        elif pod.tier in ("unschedulable", "gated"):
            for event in events:
                how = self.weigh(pod, event, pod.uid)
                if how != "skip" and self.requeue(pod, how, now):
                    self.failed_at = None
                    break

    def move(self, event: str, now: float) -> int:
        woken = self.place("unschedulable") + [pod for pod in self.place("gated") if event in WAKES["Gate"]]
        answers = [(pod, self.weigh(pod, event, None)) for pod in woken]
        moved = sum(self.requeue(pod, how, now) for pod, how in answers if how != "skip")
        self.failed_at = None if moved else self.failed_at
        self.log.append((event, None))
        return moved

    def activate(self, pod: ModelPod) -> None:
        if pod.tier == "inflight":
            self.log.append(("anything", pod.uid))
        elif pod.tier in ("backoff", "errors"):
            pod.tier = "active"
        elif pod.tier in ("unschedulable", "gated"):
            self.to(pod, "active")

    def tick(self, now: float) -> None:
        for pod in self.place("backoff", "errors"):
            if pod.expiry < math.floor(now):
                pod.tier = "active"
        if now < self.next_flush:
            return
        while self.next_flush <= now:
            self.next_flush += PERIOD
        old = [pod for pod in self.place("unschedulable") if now - pod.timestamp > TIMEOUT]
        woken = [self.requeue(pod, "after backoff", now) for pod in old]
        self.failed_at = None if any(woken) else self.failed_at
        if old:
            self.log.append(("anything", None))

    def next_wake(self) -> float | None:
        times = [pod.expiry + 1 for pod in self.place("backoff", "errors")]
        if not self.place("active"):
            times += [self.rested(pod) for pod in self.soonest()]
        if self.place("unschedulable"):
            times.append(self.next_flush)
        return min(times, default=None)
