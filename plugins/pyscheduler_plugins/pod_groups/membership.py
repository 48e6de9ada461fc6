"""Group of a pod: the one that it declares by any API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyscheduler.api import Pod, PodGroupKey, Rejection
from pyscheduler_plugins.pod_group import POD_GROUP_LABEL
from pyscheduler_plugins.pod_groups import coscheduling, native, pod_annotations, volcano
from pyscheduler_plugins.pod_groups.declared import described

APIS: Final = (native.API, volcano.API, coscheduling.API)
"""APIs with PodGroup objects, the first choice first."""
INVALID: Final = "invalid"
"""API in the key of a pod with an invalid declaration: a group of its own, which is rejected."""

_FOREIGN_ANNOTATIONS: Final = frozenset({"yunikorn.apache.org/task-group-name", "gang.scheduling.koordinator.sh/name"})
_FOREIGN_LABELS: Final = frozenset({"pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"})
"""Declarations for other schedulers, which are not read. Scheduled one by one, these pods could hold nodes in vain."""

_ANNOTATIONS: Final = (
    frozenset({volcano.GROUP_NAME, volcano.OTHER_GROUP_NAME}) | pod_annotations.ALL | _FOREIGN_ANNOTATIONS
)
_LABELS: Final = frozenset({POD_GROUP_LABEL}) | _FOREIGN_LABELS


def group_of(pod: Pod) -> PodGroupKey | None:
    """Return the group that the pod declares, None for a pod that is scheduled by itself."""
    signature = pod.signature
    if (
        # Most pods declare no group, so this test must cost next to nothing.
        signature.spec.scheduling_group is None
        and _ANNOTATIONS.isdisjoint(signature.annotations)
        and _LABELS.isdisjoint(signature.labels)
    ):
        return None
    groups = _groups_of(pod)
    if _problem(pod, groups):
        return PodGroupKey(pod.namespace, pod.name, INVALID)
    return groups[0] if groups else None


def rejection(pod: Pod) -> Rejection:
    """Return the reason why the declaration of a pod is invalid."""
    return Rejection(f"pod {pod.key}: {_problem(pod, _groups_of(pod))}", resolvable=False)


def role_of(pod: Pod) -> str:
    """Return the role of the pod in its group, "" if it declares none."""
    return pod.annotations.get(volcano.TASK) or pod.annotations.get(pod_annotations.ROLE) or ""


def _groups_of(pod: Pod) -> list[PodGroupKey]:
    """Return all groups that a pod declares."""
    groups = [PodGroupKey(pod.namespace, name, api.group) for api in APIS if (name := api.name_of(pod))]
    if (key := pod_annotations.key_of(pod)) is not None:
        groups.append(key)
    return groups


def _problem(pod: Pod, groups: Sequence[PodGroupKey]) -> str:
    """Return what is wrong with the declaration of a pod, "" if nothing."""
    if len(groups) > 1:
        return "pod declares several pod groups: " + " and ".join(map(described, groups))
    for names, known in ((pod.annotations, _FOREIGN_ANNOTATIONS), (pod.labels, _FOREIGN_LABELS)):
        if not known.isdisjoint(names):
            return f"pod groups declared by {min(known & names.keys())} are not supported"
    return "" if groups else pod_annotations.missing(pod)
