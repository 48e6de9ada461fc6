"""StatefulSet controller: pods with ordinals, created and deleted in order or in parallel, with claims of their own.

Rolling updates from the highest ordinal down to the partition, one pod at a time, and OnDelete; revisions for rollout
and undo. Unlike kube-controller-manager it ignores maxUnavailable, adopts no pods, and applies a changed retention
policy to claims that it creates afterwards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pyscheduler.embedded.client.kinds import CLAIMS, STATEFULSETS
from pyscheduler.embedded.objects import Json, Key, dig
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Plan, status_patch
from pyscheduler.embedded.workloads.objects import (
    available_at,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    owned_by,
    phase,
    pod_from_template,
    replicas_of,
    uid_of,
)
from pyscheduler.embedded.workloads.replicaset import MAX_POD_CHANGES_PER_SYNC
from pyscheduler.embedded.workloads.revisions import HASH_LABEL, keep_history, revision_of, template_of
from pyscheduler.kube.paths import PODS

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
_ORDINAL = re.compile(r"-(\d+)\Z", re.ASCII)


class _Rollout(NamedTuple):
    """The revisions between which a StatefulSet moves."""

    current: str
    update: str
    revisions: Sequence[Json]


def reconcile(
    stateful_set: Json, pods: list[Json], revisions: list[Json], claims: Mapping[Key, Json], now: float
) -> Plan:
    """Return the actions for a StatefulSet that owns `pods` and `revisions`; `claims` are those of all objects."""
    status = stateful_set.get("status") or {}
    live = {revision_of(pod) for pod in pods}
    live |= {str(status.get(field)) for field in ("currentRevision", "updateRevision")}
    update, actions = keep_history(stateful_set, revisions, live)
    rollout = _Rollout(status.get("currentRevision") or update, update, revisions)
    by_ordinal = {ordinal_of(pod): pod for pod in pods}
    min_ready = int(stateful_set["spec"].get("minReadySeconds") or 0)
    since = [at for at in (available_at(pod, min_ready) for pod in pods if is_active(pod)) if at is not None]
    if not is_deleting(stateful_set):
        actions += _claim_actions(stateful_set, by_ordinal, claims)
        actions += _next_actions(stateful_set, by_ordinal, rollout, now)
    available = sum(at <= now for at in since)
    actions += status_patch(STATEFULSETS, stateful_set, _status(stateful_set, pods, rollout, available))
    return Plan(actions, min((at for at in since if at > now), default=math.inf))


def ordinal_of(pod: Json) -> int:
    """Return the ordinal at the end of a pod's name, -1 if there is none."""
    found = _ORDINAL.search(pod["metadata"]["name"])
    return int(found[1]) if found else -1


def _wanted(stateful_set: Json) -> range:
    """Return the ordinals of the pods of a StatefulSet."""
    start = int(dig(stateful_set, "spec", "ordinals", "start") or 0)
    return range(start, start + replicas_of(stateful_set))


def _claim_actions(stateful_set: Json, pods: dict[int, Json], claims: Mapping[Key, Json]) -> list[Action]:
    """Return the creation of claims that were deleted, and the deletion of those that scaling down leaves over."""
    wanted = _wanted(stateful_set)
    actions: list[Action] = []
    for ordinal in (ordinal for ordinal in pods if ordinal in wanted):
        for _, claim in _claims(stateful_set, ordinal):
            if key_of(claim) not in claims:
                actions.append(_claim_creation(stateful_set, claim))
    if _retention(stateful_set, "whenScaled") == "Delete":
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
            prefix = f"{template['metadata']['name']}-{stateful_set['metadata']['name']}"
            for key, claim in claims.items():
                ordinal = ordinal_of(claim) if key[1] == f"{prefix}-{ordinal_of(claim)}" else -1
                is_own = ordinal >= 0 and key[0] == stateful_set["metadata"]["namespace"]
                if is_own and ordinal not in wanted and ordinal not in pods and not is_deleting(claim):
                    actions.append(Delete(CLAIMS, key, uid_of(claim)))
    return actions


def _retention(stateful_set: Json, event: str) -> str:
    return str(dig(stateful_set, "spec", "persistentVolumeClaimRetentionPolicy", event) or "Retain")


def _next_actions(stateful_set: Json, pods: dict[int, Json], rollout: _Rollout, now: float) -> list[Action]:
    spec = stateful_set["spec"]
    wanted = _wanted(stateful_set)
    in_order = spec.get("podManagementPolicy") != "Parallel"
    min_ready = int(spec.get("minReadySeconds") or 0)
    actions: list[Action] = []
    for ordinal in wanted:
        if len(actions) >= MAX_POD_CHANGES_PER_SYNC:
            return actions
        pod = pods.get(ordinal)
        if pod is None:
            actions.append(_creation(stateful_set, ordinal, rollout))
        elif phase(pod) in ("Failed", "Succeeded") and not is_deleting(pod):
            actions.append(_deletion(stateful_set, pod))
        if in_order and (pod is None or not _is_available(pod, min_ready, now)):
            return actions
    for ordinal in sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True):
        if not is_deleting(pods[ordinal]):
            actions.append(_deletion(stateful_set, pods[ordinal]))
        if in_order:
            return actions
    return actions or _roll(stateful_set, pods, wanted, rollout.update)


def _deletion(stateful_set: Json, pod: Json) -> Delete:
    return Delete(PODS, key_of(pod), uid_of(pod), event_object=stateful_set)


def _is_available(pod: Json, min_ready: int, now: float) -> bool:
    at = available_at(pod, min_ready)
    return at is not None and at <= now and is_active(pod)


def _roll(stateful_set: Json, pods: dict[int, Json], wanted: range, update: str) -> list[Action]:
    """Return the deletion of the highest pod of another revision, once all pods above it are ready."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    lowest = wanted.start + int(dig(strategy, "rollingUpdate", "partition") or 0)
    for ordinal in reversed(wanted):
        pod = pods.get(ordinal)
        if pod is None or is_deleting(pod):
            return []
        if ordinal >= lowest and revision_of(pod) != update:
            return [_deletion(stateful_set, pod)]
        if not is_ready(pod):
            return []
    return []


def _creation(stateful_set: Json, ordinal: int, rollout: _Rollout) -> Create:
    """Return the creation of a pod after its claims; below the partition from the current revision."""
    spec, name = stateful_set["spec"], f"{stateful_set['metadata']['name']}-{ordinal}"
    below = ordinal - int(dig(spec, "ordinals", "start") or 0)
    revision, template = rollout.update, spec["template"]
    if below < int(dig(spec, "updateStrategy", "rollingUpdate", "partition") or 0):
        previous = template_of(rollout.current, rollout.revisions)
        revision, template = (rollout.current, previous) if previous else (revision, template)
    pod = pod_from_template(stateful_set, owned_by(stateful_set, "StatefulSet", "apps/v1"), template)
    meta = pod["metadata"]
    del meta["generateName"]
    meta["name"] = name
    meta["labels"] |= {POD_NAME_LABEL: name, INDEX_LABEL: str(ordinal), HASH_LABEL: revision}
    claims = list(_claims(stateful_set, ordinal))
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} for volume, claim in claims
    ]
    names = {volume["name"] for volume in volumes}
    others = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] not in names]
    pod["spec"] = {
        **pod["spec"],
        "hostname": name,
        **({"subdomain": spec["serviceName"]} if spec.get("serviceName") else {}),
        **({"volumes": volumes + others} if volumes or others else {}),
    }
    first = tuple(_claim_creation(stateful_set, claim) for _, claim in claims)
    return Create(PODS, pod, stateful_set, ignore_already_exists=True, failure_object=stateful_set, before=first)


def _claim_creation(stateful_set: Json, claim: Json) -> Create:
    return Create(CLAIMS, claim, ignore_already_exists=True, failure_object=stateful_set)


def _claims(stateful_set: Json, ordinal: int) -> Iterator[tuple[str, Json]]:
    """Yield the name of each claim template, and the claim of a pod."""
    meta = stateful_set["metadata"]
    for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
        own = template["metadata"]
        name = f"{own['name']}-{meta['name']}-{ordinal}"
        labels = {**(own.get("labels") or {}), **(dig(stateful_set, "spec", "selector", "matchLabels") or {})}
        claim_meta = {"name": name, "namespace": meta["namespace"], "labels": labels}
        claim_meta |= {"annotations": own["annotations"]} if own.get("annotations") else {}
        if _retention(stateful_set, "whenDeleted") == "Delete":  # then the garbage collector deletes it
            claim_meta["ownerReferences"] = [{**owned_by(stateful_set, "StatefulSet", "apps/v1"), "controller": False}]
        head = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        yield own["name"], {**head, "metadata": claim_meta, "spec": template["spec"]}


def _status(stateful_set: Json, pods: list[Json], rollout: _Rollout, available: int) -> Json:
    created = [pod for pod in pods if phase(pod) not in ("Failed", "Succeeded")]
    remaining = [pod for pod in created if not is_deleting(pod)]
    ready = sum(is_ready(pod) for pod in created)
    updated = sum(revision_of(pod) == rollout.update for pod in remaining)
    current_revision = rollout.current
    if updated == len(created) == ready and len(created) == replicas_of(stateful_set):
        current_revision = rollout.update
    current = sum(revision_of(pod) == current_revision for pod in remaining)
    # The API omits counts of zero; null removes them and equals a missing field.
    return {
        "observedGeneration": stateful_set["metadata"].get("generation", 0),
        "replicas": len(created),
        "readyReplicas": ready or None,
        "availableReplicas": available,
        "currentReplicas": current or None,
        "updatedReplicas": updated or None,
        "currentRevision": current_revision,
        "updateRevision": rollout.update,
        "collisionCount": 0,
    }
