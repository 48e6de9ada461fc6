"""DaemonSet controller: one pod on every node that the template selects, bound by the scheduler.

Rolling updates with maxUnavailable or maxSurge, OnDelete, revisions for rollout and undo, and changes of nodes. Unlike
kube-controller-manager it replaces failed pods without a backoff and adopts no pods.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from pyscheduler.embedded.client.kinds import DAEMONSETS
from pyscheduler.embedded.objects import Json, dig, seconds
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Plan, RecordAction, status_patch
from pyscheduler.embedded.workloads.daemon_nodes import DaemonNodes, pinned_affinity, pinned_node
from pyscheduler.embedded.workloads.int_or_percent import scale_int_or_percent
from pyscheduler.embedded.workloads.objects import (
    available_at,
    is_deleting,
    is_ready,
    key_of,
    owned_by,
    phase,
    pod_from_template,
    uid_of,
)
from pyscheduler.embedded.workloads.revisions import HASH_LABEL, keep_history, revision_of
from pyscheduler.kube.paths import PODS

_Pods = dict[str, list[Json]]
"""Pods by node, the oldest first."""


def reconcile(daemon_set: Json, pods: list[Json], revisions: list[Json], nodes: Iterable[Json], now: float) -> Plan:
    """Return the actions for a DaemonSet that owns `pods` and `revisions`, in a cluster of `nodes`."""
    rules = DaemonNodes(daemon_set["spec"]["template"])
    update, actions = keep_history(daemon_set, revisions, _revisions_in_use(daemon_set, pods))
    label = update.removeprefix(f"{daemon_set['metadata']['name']}-")
    on_node: _Pods = {}
    for pod in pods:
        on_node.setdefault(pinned_node(pod), []).append(pod)
    for several in on_node.values():
        if len(several) > 1:
            several.sort(key=_age)
    by_name = {node["metadata"]["name"]: node for node in nodes}
    wanted = {name for name, node in by_name.items() if rules.should_run(node)}
    staying = {name for name in on_node.keys() - wanted if name in by_name and rules.may_continue(by_name[name])}
    min_ready = int(daemon_set["spec"].get("minReadySeconds") or 0)
    if not is_deleting(daemon_set):
        changes = _place(daemon_set, on_node, (wanted, staying), label, rules)
        actions += changes or _roll(daemon_set, on_node, (wanted, label), (rules, now))
    since = [at for at in (available_at(pod, min_ready) for pod in pods if min_ready) if at is not None]
    actions += status_patch(DAEMONSETS, daemon_set, _status(daemon_set, on_node, wanted, label, now))
    return Plan(actions, min((at for at in since if at > now), default=math.inf))


def _revisions_in_use(daemon_set: Json, pods: list[Json]) -> set[str]:
    name = daemon_set["metadata"]["name"]
    return {f"{name}-{revision_of(pod)}" for pod in pods}


def _age(pod: Json) -> tuple[float, str]:
    return seconds(pod["metadata"].get("creationTimestamp")) or 0.0, pod["metadata"]["name"]


def _place(
    daemon_set: Json, on_node: _Pods, nodes: tuple[set[str], set[str]], label: str, rules: DaemonNodes
) -> list[Action]:
    """Return the creation of missing pods, and the deletion of failed ones, duplicates and those on other nodes."""
    wanted, staying = nodes
    actions: list[Action] = []
    for name, pods in on_node.items():
        living = [pod for pod in pods if not is_deleting(pod)]
        failed = [pod for pod in living if phase(pod) in ("Failed", "Succeeded")]
        running = [pod for pod in living if pod not in failed]
        for pod in failed:
            text = f"Found failed daemon pod {'/'.join(key_of(pod))} on node {name}, will try to kill it"
            actions += [RecordAction(daemon_set, "FailedDaemonPod", text, "Warning"), *_deletions(daemon_set, [pod])]
        if name not in wanted and name not in staying:
            actions += _deletions(daemon_set, running)
        elif len({revision_of(pod) for pod in running}) < len(running):  # more than one of a revision
            actions += _deletions(daemon_set, running[1:])
    missing = [name for name in sorted(wanted) if not on_node.get(name)]
    return actions + [_creation(daemon_set, name, label, rules) for name in missing]


def _deletions(daemon_set: Json, pods: Iterable[Json]) -> list[Action]:
    return [Delete(PODS, key_of(pod), uid_of(pod), event_object=daemon_set) for pod in pods]


def _creation(daemon_set: Json, node: str, label: str, rules: DaemonNodes) -> Action:
    pod = pod_from_template(daemon_set, owned_by(daemon_set, "DaemonSet", "apps/v1"), daemon_set["spec"]["template"])
    pod["metadata"]["labels"][HASH_LABEL] = label
    spec = pod["spec"]
    affinity = pinned_affinity(spec.get("affinity"), node)
    pod["spec"] = {**spec, "affinity": affinity, "tolerations": rules.tolerations}
    return Create(PODS, pod, event_object=daemon_set, failure_object=daemon_set)


def _roll(
    daemon_set: Json, on_node: _Pods, target: tuple[set[str], str], context: tuple[DaemonNodes, float]
) -> list[Action]:
    """Return the next step of a rolling update: deletions within maxUnavailable, or creations within maxSurge."""
    (wanted, label), (rules, now) = target, context
    strategy = daemon_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    limits = strategy.get("rollingUpdate") or {}
    surge = scale_int_or_percent(limits.get("maxSurge", 0), len(wanted), round_up=True)
    room = surge or scale_int_or_percent(limits.get("maxUnavailable", 1), len(wanted), round_up=True)
    min_ready = int(daemon_set["spec"].get("minReadySeconds") or 0)
    actions: list[Action] = []
    outdated: list[str] = []
    for name in sorted(wanted):
        pods = on_node.get(name, [])
        new = [pod for pod in pods if revision_of(pod) == label]
        old = [pod for pod in pods if revision_of(pod) != label and not is_deleting(pod)]
        if old and any(_is_available(pod, min_ready, now) for pod in new):
            actions += _deletions(daemon_set, old)  # its replacement of a surge is available
        elif old and not new and _is_available(old[0], min_ready, now):
            outdated.append(name)
        elif old and not new and not surge:
            actions += _deletions(daemon_set, old)  # it is unavailable anyway
            room -= 1
        elif not any(_is_available(pod, min_ready, now) for pod in pods) or (surge and new and old):
            room -= 1
    chosen = outdated[: max(0, room)]
    if surge:
        return actions + [_creation(daemon_set, name, label, rules) for name in chosen]
    return actions + _deletions(daemon_set, (pod for n in chosen for pod in on_node[n] if not is_deleting(pod)))


def _is_available(pod: Json, min_ready: int, now: float) -> bool:
    if is_deleting(pod) or not is_ready(pod):
        return False
    at = available_at(pod, min_ready) if min_ready else now  # parsing times of all pods takes long
    return at is not None and at <= now


def _status(daemon_set: Json, on_node: _Pods, wanted: set[str], label: str, now: float) -> Json:
    min_ready = int(daemon_set["spec"].get("minReadySeconds") or 0)
    placed = [on_node[name] for name in wanted if any(not is_deleting(pod) for pod in on_node.get(name, []))]
    living = [[pod for pod in pods if not is_deleting(pod)] for pods in placed]
    available = sum(any(_is_available(pod, min_ready, now) for pod in pods) for pods in living)
    # The API omits some counts of zero; null removes them and equals a missing field.
    return {
        "currentNumberScheduled": len(living),
        "numberMisscheduled": sum(
            any(dig(pod, "spec", "nodeName") for pod in pods) for name, pods in on_node.items() if name not in wanted
        ),
        "desiredNumberScheduled": len(wanted),
        "numberReady": sum(any(is_ready(pod) for pod in pods) for pods in living),
        "observedGeneration": daemon_set["metadata"].get("generation", 0),
        "updatedNumberScheduled": sum(any(revision_of(pod) == label for pod in pods) for pods in living) or None,
        "numberAvailable": available or None,
        "numberUnavailable": len(wanted) - available or None,
    }
