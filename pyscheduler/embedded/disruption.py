"""Status of PodDisruptionBudgets, as the disruption controller writes it; without it every eviction is rejected.

A recount reads every pod of the namespace, so it runs only when the figures are needed: when a budget changes, before
an eviction, and a few times a second while the server runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyscheduler.embedded.history import DELETED, Event
from pyscheduler.embedded.objects import Json, condition, dig, labels_of, owners_of, seconds
from pyscheduler.embedded.selectors import selector_test
from pyscheduler.embedded.store import Store
from pyscheduler.kube.numbers import natural

BUDGETS = "poddisruptionbudgets.policy"
_PODS = "pods"
_FORGET_DISRUPTED_SECONDS = 120.0

FindOwner = Callable[[str], Json | None]
"""Return the object with a uid, None if it does not exist."""


def controller_of(obj: Mapping[str, Any]) -> str:
    """Return the uid of the controller of an object, "" if it has none."""
    return next((owner.get("uid", "") for owner in owners_of(obj) if owner.get("controller")), "")


def _expected(pods: list[Json], find: FindOwner) -> int:
    """Return the replicas that the pods' controllers desire; a pod without a controller counts as one."""
    replicas_by_uid: dict[str, int] = {}
    for pod in pods:
        uid = controller_of(pod)
        while (owner := find(uid)) is not None and controller_of(owner):
            uid = controller_of(owner)
        replicas = dig(owner, "spec", "replicas")
        replicas_by_uid[uid or pod["metadata"]["uid"]] = replicas if isinstance(replicas, int) else 1
    return sum(replicas_by_uid.values())


def _amount(value: Any, whole: int) -> int:
    """Return a count, or a percentage of `whole` rounded up."""
    percent = natural(value[:-1]) if isinstance(value, str) and value.endswith("%") else None
    if percent is not None:
        return -(-percent * whole // 100)
    return int(value) if isinstance(value, int) else 0


def budget_status(budget: Json, pods: list[Json], find: FindOwner, now: tuple[float, str]) -> Json:
    """Return the status of `budget` over the pods that it selects; `now` in seconds and as a timestamp."""
    spec, old = budget.get("spec") or {}, budget.get("status") or {}
    names = {pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}
    disrupted = {
        name: since
        for name, since in (old.get("disruptedPods") or {}).items()
        if name in names and (seconds(since) or 0.0) > now[0] - _FORGET_DISRUPTED_SECONDS
    }
    healthy = sum(_healthy(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
    if "maxUnavailable" in spec:
        expected = _expected(pods, find)
        desired = max(0, expected - _amount(spec["maxUnavailable"], expected))
    else:
        least = spec.get("minAvailable", 0)
        expected = len(pods) if isinstance(least, int) else _expected(pods, find)
        desired = _amount(least, expected)
    allowed = max(0, healthy - desired) if expected else 0
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "conditions": [_allowed_condition(budget, allowed, now[1])],
        **({"disruptedPods": disrupted} if disrupted else {}),
    }


def _healthy(pod: Json) -> bool:
    return condition(pod, "Ready").get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def _allowed_condition(budget: Json, allowed: int, now: str) -> Json:
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    before = condition(budget, "DisruptionAllowed")
    since = before["lastTransitionTime"] if before.get("status") == status else now
    made = {"type": "DisruptionAllowed", "status": status, "reason": reason, "message": ""}
    return made | {"lastTransitionTime": since, "observedGeneration": budget["metadata"].get("generation", 1)}


class DisruptionController:
    """Namespaces with budgets that may have an outdated status."""

    def __init__(self, store: Store, find: FindOwner) -> None:
        self._store, self._find = store, find
        self._stale: set[str] = set()
        self.changed = False
        """True if the spec of a budget has changed since the last recount."""
        store.reactors.append(self._react)

    def _react(self, bucket: str, event: Event) -> None:
        namespace = event.version.key[0]
        if bucket == BUDGETS and event.kind != DELETED:
            before = event.previous.object if event.previous else {}
            if before.get("spec") != event.version.object.get("spec"):
                self._stale.add(namespace)
                self.changed = True
        elif bucket == _PODS and self._store.bucket(BUDGETS).objects:
            self._stale.add(namespace)

    def recount(self, now: tuple[float, str]) -> None:
        """Update the status of all budgets in stale namespaces."""
        stale, self._stale, self.changed = self._stale, set(), False
        for namespace in stale:
            for version in list(self._store.scan(BUDGETS, namespace)):
                budget = version.object
                selected = selector_test((budget.get("spec") or {}).get("selector"))
                found = [v.object for v in self._store.scan(_PODS, namespace) if selected(labels_of(v.object))]
                pods = [pod for pod in found if dig(pod, "status", "phase") not in {"Succeeded", "Failed"}]
                status = budget_status(budget, pods, self._find, now)
                self._store.put(BUDGETS, version.key, {**budget, "metadata": {**budget["metadata"]}, "status": status})
