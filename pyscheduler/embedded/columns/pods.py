"""Columns of pods, above all STATUS, which is derived from phase, conditions and containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyscheduler.embedded.columns.column import AGE, NAME, NONE, Column, Obj, since, wide
from pyscheduler.embedded.objects import condition, dig

_TERMINAL = ("Succeeded", "Failed")


def _statuses(pod: Obj, field: str) -> list[Mapping[str, Any]]:
    return dig(pod, "status", field) or []


def _sidecars(pod: Obj) -> set[str]:
    return {c.get("name", "") for c in dig(pod, "spec", "initContainers") or () if c.get("restartPolicy") == "Always"}


def _terminated_reason(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(pod: Obj) -> str:
    """Return the Init: status of a pod with unfinished init containers, "" if it has none."""
    sidecars = _sidecars(pod)
    total = len(dig(pod, "spec", "initContainers") or ())
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        done = terminated is not None and terminated.get("exitCode", 0) == 0
        if done or (status.get("name") in sidecars and status.get("started")):
            continue
        if terminated is not None:
            return f"Init:{_terminated_reason(terminated)}"
        if waiting.get("reason") not in {None, "", "PodInitializing"}:
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _running(pod: Obj, reason: str) -> str:
    """Return the reason from the containers; the first container has precedence."""
    has_running, failed = False, ""
    for status in reversed(_statuses(pod, "containerStatuses")):
        state = status.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            reason = _terminated_reason(state["terminated"])
            failed = reason if state["terminated"].get("exitCode", 0) else failed
        elif status.get("ready") and state.get("running") is not None:
            has_running = True
    if reason != "Completed":
        return reason
    if has_running:
        ready = condition(pod, "Ready").get("status") == "True"
        return "Running" if ready else failed or "NotReady"
    return failed or reason


def status_text(pod: Obj, _now: float = 0.0) -> str:
    """Return the STATUS column (printPod)."""
    status = dig(pod, "status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    if condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    init = _initializing(pod)
    stuck = init and condition(pod, "Initialized").get("status") != "True"
    reason = init if stuck else _running(pod, init or reason)
    if dig(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in _TERMINAL:
            return "Terminating"
    return str(reason)


def _counted_statuses(pod: Obj) -> Iterator[Mapping[str, Any]]:
    """Yield the statuses that READY and RESTARTS count: sidecars and containers."""
    sidecars = _sidecars(pod)
    yield from (s for s in _statuses(pod, "initContainerStatuses") if s.get("name") in sidecars)
    yield from _statuses(pod, "containerStatuses")


def _ready(pod: Obj, _now: float) -> str:
    total = len(dig(pod, "spec", "containers") or ()) + len(_sidecars(pod))
    ready = sum(bool(s.get("ready") and dig(s, "state", "running") is not None) for s in _counted_statuses(pod))
    return f"{ready}/{total}"


def _restarts(pod: Obj, now: float) -> str:
    statuses = list(_counted_statuses(pod))
    if _initializing(pod) and condition(pod, "Initialized").get("status") != "True":
        statuses = _statuses(pod, "initContainerStatuses")
    restarts = sum(s.get("restartCount", 0) for s in statuses)
    last = max((dig(s, "lastState", "terminated", "finishedAt") or "" for s in statuses), default="")
    return f"{restarts} ({since(last, now)} ago)" if restarts and last else str(restarts)


def _or_none(*path: str) -> Any:
    return lambda pod, _now: dig(pod, *path) or NONE


def _ip(pod: Obj, _now: float) -> str:
    ips = dig(pod, "status", "podIPs") or [{"ip": dig(pod, "status", "podIP")}]
    return ips[0].get("ip") or NONE


def _gates(pod: Obj, _now: float) -> str:
    gates = dig(pod, "spec", "readinessGates") or ()
    ready = sum(condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{ready}/{len(gates)}" if gates else NONE


POD_COLUMNS = (
    NAME,
    Column("Ready", _ready),
    Column("Status", status_text),
    Column("Restarts", _restarts),
    AGE,
    wide("IP", _ip),
    wide("Node", _or_none("spec", "nodeName")),
    wide("Nominated Node", _or_none("status", "nominatedNodeName")),
    wide("Readiness Gates", _gates),
)
