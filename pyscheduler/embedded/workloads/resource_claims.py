"""ResourceClaims of pods: created from templates, released by pods that have ended, deallocated without users.

As kube-controller-manager's resourceclaim controller. Claims of a pod that is deleted are deleted by the garbage
collector; this controller then deallocates them and removes the finalizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyscheduler.embedded.client.kinds import RESOURCE_CLAIMS
from pyscheduler.embedded.objects import Json, Key
from pyscheduler.embedded.workloads.actions import Action, Create, Delete, Patch, Plan, RecordAction
from pyscheduler.embedded.workloads.objects import controller_uid, is_deleting, key_of, owned_by, phase, uid_of
from pyscheduler.kube.paths import PODS

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation with the entry of the pod's spec.resourceClaims for which a claim was created."""
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
RETRY_SECONDS: Final = 1.0
"""Time after which a missing template is looked for again."""


def has_ended(pod: Json) -> bool:
    """Return True if the pod does not need its claims: it is finished, or deleted before it got a node."""
    return phase(pod) in ("Succeeded", "Failed") or (is_deleting(pod) and not pod["spec"].get("nodeName"))


def reconcile_pod(pod: Json, claims: Sequence[Json], templates: Mapping[Key, Json], now: float) -> Plan:
    """Return what creates the claims of a pod and shows them in its status; `claims` are those that it owns."""
    if is_deleting(pod) or has_ended(pod):
        return Plan()
    shown = list((pod.get("status") or {}).get("resourceClaimStatuses") or ())
    names = {each["name"] for each in shown}
    actions: list[Action] = []
    requeue_at = float("inf")
    added = []
    for entry in pod["spec"].get("resourceClaims") or ():
        template_name = entry.get("resourceClaimTemplateName")
        if template_name is None or entry["name"] in names:
            continue
        claim = next((each for each in claims if _entry_of(each) == entry["name"] and not is_deleting(each)), None)
        template = templates.get((key_of(pod)[0], template_name))
        if claim is not None:
            added.append({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]})
        elif template is not None:
            actions.append(Create(RESOURCE_CLAIMS, _claim(pod, entry["name"], template)))
        else:
            missing = f'resource claim template "{template_name}": resourceclaimtemplate.resource.k8s.io'
            text = f'PodResourceClaim {entry["name"]}: {missing} "{template_name}" not found'
            actions.append(RecordAction(pod, "FailedResourceClaimCreation", text, "Warning"))
            requeue_at = now + RETRY_SECONDS
    if added:
        status = {"resourceClaimStatuses": [*shown, *added]}
        patch = {"metadata": {"uid": uid_of(pod)}, "status": status}
        actions.append(Patch(PODS, key_of(pod), patch, "status", "strategic-merge"))
    return Plan(actions, requeue_at)


def reconcile_claim(claim: Json, pod_of: Callable[[Key], Json | None]) -> list[Action]:
    """Return what releases a claim by pods that have ended, deallocates it without users, and deletes it if unused."""
    namespace, _ = key = key_of(claim)
    meta, status = claim["metadata"], claim.get("status") or {}
    users = status.get("reservedFor") or []
    kept = [user for user in users if _is_user(pod_of((namespace, user["name"])), user)]
    is_protected = FINALIZER in (meta.get("finalizers") or ())
    same = {"uid": uid_of(claim), "resourceVersion": meta["resourceVersion"]}
    if len(kept) < len(users):
        changed = {"reservedFor": kept or None} | ({"allocation": None} if not kept and is_protected else {})
        return [Patch(RESOURCE_CLAIMS, key, {"metadata": same, "status": changed}, "status")]
    if kept:
        return []
    is_unused = is_deleting(claim) or _owner_has_ended(claim, pod_of)
    if is_protected and is_deleting(claim) and status.get("allocation"):
        return [Patch(RESOURCE_CLAIMS, key, {"metadata": same, "status": {"allocation": None}}, "status")]
    if is_protected and is_unused and not status.get("allocation"):
        # In other claims the scheduler may just have added it, before it writes the allocation.
        left = [each for each in meta["finalizers"] if each != FINALIZER]
        return [Patch(RESOURCE_CLAIMS, key, {"metadata": {**same, "finalizers": left or None}})]
    if is_unused and not is_deleting(claim):
        return [Delete(RESOURCE_CLAIMS, key, uid_of(claim))]
    return []


def _is_user(pod: Json | None, user: Json) -> bool:
    return pod is not None and uid_of(pod) == user["uid"] and not has_ended(pod)


def _owner_has_ended(claim: Json, pod_of: Callable[[Key], Json | None]) -> bool:
    """Return True if the claim was created for a pod that has ended; one that is gone is the garbage collector's."""
    owners = claim["metadata"].get("ownerReferences") or ()
    owner = next((each for each in owners if each.get("controller") and each["kind"] == "Pod"), None)
    pod = pod_of((key_of(claim)[0], owner["name"])) if owner is not None else None
    return pod is not None and uid_of(pod) == controller_uid(claim) and has_ended(pod)


def _entry_of(claim: Json) -> str | None:
    name = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME)
    return None if name is None else str(name)


def _claim(pod: Json, entry: str, template: Json) -> Json:
    meta = template["spec"].get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod['metadata']['name']}-{entry}-",
            "namespace": pod["metadata"]["namespace"],
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "ownerReferences": [owned_by(pod, "Pod", "v1")],
        },
        "spec": template["spec"]["spec"],
    }
