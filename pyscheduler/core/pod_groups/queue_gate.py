"""The scheduling gate that queues remove: pods with it wait for their quota, and are no demand for autoscalers.

The gate and the annotation of an admitted pod change in one patch, so that a restarted scheduler reads from the pods
which of them their queue has admitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyscheduler.api.handle import ApiError, ApiWriter
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroupKey
from pyscheduler.core.state.signatures import derived

QUEUE_GATE: Final = "pyscheduler.io/queue-admission"
"""Name of the scheduling gate."""
ADMITTED: Final = "pyscheduler.io/queue-admitted"
"""Annotation of pods that had the gate."""
_NOT_FOUND, _CONFLICT = 404, 409


def has_only_queue_gate(pod: Pod) -> bool:
    """Return True if the pod has this gate and no other one."""
    gates = pod.spec.scheduling_gates
    return bool(gates) and all(gate.name == QUEUE_GATE for gate in gates or ())


def has_other_gates(pod: Pod) -> bool:
    """Return True if the pod has a gate that no queue removes."""
    gates = pod.spec.scheduling_gates
    return bool(gates) and any(gate.name != QUEUE_GATE for gate in gates or ())


def is_admitted(pod: Pod) -> bool:
    """Return True if the gate of the pod has been removed."""
    return ADMITTED in pod.annotations and not pod.spec.scheduling_gates


def without_gates(pod: Pod) -> Pod:
    """Return a copy of the pod without gates, for plugins that decide what else the pod waits for."""
    copy = pod.on(pod.node_name)
    copy.signature = derived(pod.signature, scheduling_gates=None)
    return copy


class GateRemoval:
    """API call that removes the gate from a pod. Its first failure is an event of the pod: a policy may deny it."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._is_reported = False

    async def __call__(self, api: ApiWriter) -> None:
        """Remove the gate. ApiError if the request fails."""
        try:
            await _remove_gate(self._pod, api)
        except ApiError as problem:
            if not self._is_reported:
                self._is_reported = True
                note = f"The gate {QUEUE_GATE} is not removed yet: {problem}"
                api.record(self._pod, "FailedGateRemoval", "RemovingGate", note)
            raise


async def _remove_gate(pod: Pod, api: ApiWriter) -> None:
    """Remove the gate from a pod that has no other one, unless the pod no longer exists."""
    patch = {
        "metadata": {"uid": pod.uid, "annotations": {ADMITTED: "true"}},
        "spec": {"schedulingGates": None},
    }
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
    try:
        try:
            await api.merge(path, patch)
        except ApiError as problem:
            is_conflict = problem.status == _CONFLICT
            if not is_conflict or (await api.get(path))["metadata"]["uid"] == pod.uid:
                raise
    except ApiError as problem:
        if problem.status != _NOT_FOUND:
            raise


class GateRemovals:
    """Admitted members of groups that still have their gates: the patches are under way."""

    def __init__(self) -> None:
        self._uids: dict[PodGroupKey, set[str]] = {}

    def start(self, key: PodGroupKey, pods: Iterable[Pod]) -> None:
        """Add members that are losing their gates."""
        self._uids.setdefault(key, set()).update(pod.uid for pod in pods)

    def end(self, key: PodGroupKey, uid: str) -> None:
        """Drop a member that has no gate any more, or is no member any more."""
        uids = self._uids.get(key)
        if uids is not None:
            uids.discard(uid)
            if not uids:
                del self._uids[key]

    def __contains__(self, key: PodGroupKey) -> bool:
        return key in self._uids

    def __bool__(self) -> bool:
        return bool(self._uids)
