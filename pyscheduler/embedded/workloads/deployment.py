"""Deployment controller: rolls pods from one template to the next through ReplicaSets.

RollingUpdate and Recreate, maxSurge and maxUnavailable, revisions (so that `kubectl rollout history` and `undo` work),
revisionHistoryLimit, progressDeadlineSeconds, pause. Unlike kube-controller-manager it has no proportional scaling
during a rollout (the newest ReplicaSet takes the difference), adoption of ReplicaSets or hash collisions.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from pyscheduler.embedded.client import DEPLOYMENTS, REPLICASETS
from pyscheduler.embedded.objects import Json
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, Plan, status_patch
from pyscheduler.embedded.workloads.deployment_progress import Rollout, check_at, with_progress
from pyscheduler.embedded.workloads.int_or_percent import scale_int_or_percent
from pyscheduler.embedded.workloads.objects import (
    is_deleting,
    key_of,
    owned_by,
    phase,
    replicas_of,
    status_number,
    uid_of,
    with_condition,
)
from pyscheduler.embedded.workloads.replicaset import REPLICA_FAILURE
from pyscheduler.kube.numbers import natural

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
CHANGE_CAUSE = "kubernetes.io/change-cause"
HISTORY_LIMIT = 10

_AVAILABLE = {
    True: {"reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability."},
    False: {"reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability."},
}

_OMITTED_IF_EMPTY = ("metadata", "labels", "annotations", "resources", "requests", "limits")
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_encode = msgspec.json.Encoder(order="deterministic").encode


def reconcile(deployment: Json, replica_sets: list[Json], pods: list[Json], now: float) -> Plan:
    """Return the actions for a Deployment that owns `replica_sets`, which own `pods`."""
    if is_deleting(deployment):
        return Plan()
    wanted_hash = template_hash(deployment["spec"]["template"])
    newest = next((rs for rs in replica_sets if _hash_of(rs) == wanted_hash), None)
    old = [rs for rs in replica_sets if rs is not newest]
    if deployment["spec"].get("paused"):
        actions = _scale_paused(deployment, newest, old)
    else:
        actions = _set_revisions(deployment, newest, old) + _roll(deployment, newest, old, pods)
        actions += _clean_up_history(deployment, old)
    status = _status(deployment, newest, old, now)
    return Plan(actions + status_patch(DEPLOYMENTS, deployment, status), check_at(deployment, status["conditions"]))


def template_hash(template: Json) -> str:
    """Return the pod-template-hash, equal for all spellings of one template."""
    number = int.from_bytes(hashlib.blake2b(_encode(_canonical(template)), digest_size=8).digest())
    letters = []
    for _ in range(10):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(letters)


def _canonical(value: Any) -> Any:
    """Return `value` without what Go clients add when they write a template back: nulls, empty lists and structs."""
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    parts = {name: _canonical(part) for name, part in value.items()}
    return {k: v for k, v in parts.items() if v is not None and v != [] and not (v == {} and k in _OMITTED_IF_EMPTY)}


def limits(deployment: Json) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable in pods; never both zero, which would stop the rollout."""
    replicas = replicas_of(deployment)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = scale_int_or_percent(rolling.get("maxSurge", "25%"), replicas, round_up=True)
    unavailable = scale_int_or_percent(rolling.get("maxUnavailable", "25%"), replicas, round_up=False)
    return surge, min(unavailable, replicas) if surge or unavailable else 1


def _roll(deployment: Json, newest: Json | None, old: list[Json], pods: list[Json]) -> list[Action]:
    recreate = _recreates(deployment)
    if recreate and (running := [rs for rs in old if replicas_of(rs)]):
        return [_resize(rs, 0) for rs in running]
    if recreate and _has_old_pods(pods, newest):
        return []
    wanted = replicas_of(deployment)
    most = wanted + (0 if recreate else limits(deployment)[0]) - sum(replicas_of(rs) for rs in old)
    if newest is None:
        return [Create(REPLICASETS, _replica_set(deployment, old, min(wanted, max(0, most))))]
    size = replicas_of(newest)
    # Growing is limited by the surge; shrinking goes to the desired size at once.
    goal = wanted if size > wanted else max(size, min(wanted, most))
    resized = [_resize(newest, goal)] if goal != size else []
    return resized + ([] if recreate else _shrink_old(deployment, newest, old))


def _has_old_pods(pods: list[Json], newest: Json | None) -> bool:
    """Return True while unfinished pods of an earlier template exist; Recreate waits for them."""
    current = _hash_of(newest) if newest is not None else ""
    stale = (pod for pod in pods if (pod["metadata"].get("labels") or {}).get(HASH_LABEL) != current)
    return any(phase(pod) not in ("Succeeded", "Failed") for pod in stale)


def _shrink_old(deployment: Json, newest: Json, old: list[Json]) -> list[Action]:
    """Scale down old ReplicaSets within maxUnavailable: unavailable pods first, then the oldest ReplicaSets."""
    by_age = sorted((rs for rs in old if replicas_of(rs)), key=_revision)
    sizes = {uid_of(rs): replicas_of(rs) for rs in by_age}
    least = replicas_of(deployment) - limits(deployment)[1]
    new_missing = replicas_of(newest) - status_number(newest, "availableReplicas")
    spare = sum(sizes.values()) + replicas_of(newest) - least - max(0, new_missing)
    for rs in by_age:
        unhealthy = max(0, replicas_of(rs) - status_number(rs, "availableReplicas"))
        removed = min(unhealthy, max(0, spare))
        sizes[uid_of(rs)] -= removed
        spare -= removed
    for rs in by_age:
        removed = min(sizes[uid_of(rs)], max(0, spare))
        sizes[uid_of(rs)] -= removed
        spare -= removed
    return [_resize(rs, sizes[uid_of(rs)]) for rs in by_age if sizes[uid_of(rs)] != replicas_of(rs)]


def _scale_paused(deployment: Json, newest: Json | None, old: list[Json]) -> list[Action]:
    """Scale a paused Deployment to spec.replicas: the largest ReplicaSet takes the difference."""
    sets = [rs for rs in ([newest] if newest is not None else []) + old if replicas_of(rs)]
    if not sets:
        return [_resize(newest, replicas_of(deployment))] if newest is not None and replicas_of(deployment) else []
    largest = max(sets, key=replicas_of)
    missing = replicas_of(deployment) - sum(replicas_of(rs) for rs in sets)
    return [_resize(largest, max(0, replicas_of(largest) + missing))] if missing else []


def _set_revisions(deployment: Json, newest: Json | None, old: list[Json]) -> list[Action]:
    """Give the newest ReplicaSet the highest revision, also after a rollback to an old one."""
    highest = max((_revision(rs) for rs in old), default=0)
    revision = highest + 1 if newest is None or _revision(newest) <= highest else _revision(newest)
    patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
    actions: list[Action] = []
    if newest is not None and _revision(newest) != revision:
        actions.append(Patch(REPLICASETS, key_of(newest), patch))
    if _annotations(deployment).get(REVISION) != str(revision):
        actions.append(Patch(DEPLOYMENTS, key_of(deployment), patch))
    return actions


def _clean_up_history(deployment: Json, old: list[Json]) -> list[Action]:
    limit = deployment["spec"].get("revisionHistoryLimit")
    limit = HISTORY_LIMIT if limit is None else int(limit)
    empty = [rs for rs in old if not replicas_of(rs) and not status_number(rs, "replicas") and not is_deleting(rs)]
    surplus = sorted(empty, key=_revision)[: max(0, len(empty) - limit)]
    return [Delete(REPLICASETS, key_of(rs), uid_of(rs)) for rs in surplus]


def _replica_set(deployment: Json, old: list[Json], size: int) -> Json:
    spec, meta = deployment["spec"], deployment["metadata"]
    hashed = {HASH_LABEL: template_hash(spec["template"])}
    template_meta = spec["template"].get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), **hashed}
    selector = spec["selector"]
    annotations = {REVISION: str(max((_revision(rs) for rs in old), default=0) + 1)}
    if CHANGE_CAUSE in _annotations(deployment):
        annotations[CHANGE_CAUSE] = _annotations(deployment)[CHANGE_CAUSE]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": _replica_set_name(deployment),
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owned_by(deployment, "Deployment", "apps/v1")],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": int(spec.get("minReadySeconds") or 0),
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **hashed}},
            "template": {**spec["template"], "metadata": {**template_meta, "labels": labels}},
        },
    }


def _replica_set_name(deployment: Json) -> str:
    return f"{deployment['metadata']['name']}-{template_hash(deployment['spec']['template'])}"


def _status(deployment: Json, newest: Json | None, old: list[Json], now: float) -> Json:
    sets = old if newest is None else [newest, *old]
    wanted = replicas_of(deployment)
    total = sum(status_number(rs, "replicas") for rs in sets)
    updated = status_number(newest, "replicas") if newest is not None else 0
    ready = sum(status_number(rs, "readyReplicas") for rs in sets)
    available = sum(status_number(rs, "availableReplicas") for rs in sets)
    conditions = (deployment.get("status") or {}).get("conditions") or []
    enough = available >= wanted - (0 if _recreates(deployment) else limits(deployment)[1])
    conditions = with_condition(conditions, "Available", enough, now, **_AVAILABLE[enough])
    name = newest["metadata"]["name"] if newest is not None else _replica_set_name(deployment)
    rollout = Rollout(name, newest is not None, total, updated, ready, available, wanted)
    conditions = with_progress(deployment, conditions, rollout, now)
    conditions = [each for each in conditions if each["type"] != REPLICA_FAILURE]
    conditions += [each for rs in sets for each in _failures(rs)][:1]
    # The API omits counts of zero; null removes them and equals a missing field.
    return {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, wanted - available) or None,
        "conditions": conditions,
    }


def _failures(replica_set: Json) -> list[Json]:
    conditions = (replica_set.get("status") or {}).get("conditions") or []
    return [each for each in conditions if each["type"] == REPLICA_FAILURE]


def _recreates(deployment: Json) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _resize(replica_set: Json, size: int) -> Patch:
    # With resourceVersion as precondition the server rejects a size computed from a stale cache; then it is retried.
    version = replica_set["metadata"].get("resourceVersion", "")
    patch = {"metadata": {"resourceVersion": version}, "spec": {"replicas": size}}
    return Patch(REPLICASETS, key_of(replica_set), patch)


def _annotations(obj: Json) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _hash_of(replica_set: Json) -> str:
    return str((replica_set["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _revision(replica_set: Json) -> int:
    text = _annotations(replica_set).get(REVISION, "0")
    return natural(text) or 0
