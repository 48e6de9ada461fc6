"""Pod groups without objects: annotations of the pods have the requirements, the same on all pods that wait for a node.

A group without a name has the pods of one controller: a Job, a JobSet, or one replica of a LeaderWorkerSet. Keys of
labels divide the pods into groups with equal values: a JobSet into its Jobs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from msgspec.structs import replace

from pyscheduler.api import Pod, PodGroup, PodGroupKey, PodSignature, Rejection, TopologyConstraint

GROUP_NAME: Final = "pyscheduler.io/pod-group"
MIN_COUNT: Final = "pyscheduler.io/pod-group-min-count"
MATCH_LABEL_KEYS: Final = "pyscheduler.io/pod-group-match-label-keys"
"""Label keys, separated by commas: pods with equal values of these labels are a group."""
QUEUES: Final = ("pyscheduler.io/pod-group-queue", "scheduling.volcano.sh/queue-name")
"""Annotations with the name of the queue, of pods with and without a group; the first counts."""
ROLE: Final = "pyscheduler.io/pod-group-role"
REQUIRED_TOPOLOGY: Final = "pyscheduler.io/pod-group-required-topology"
"""Node labels, separated by commas, of each of which all pods of the group must have the same value."""
PREFERRED_TOPOLOGY: Final = "pyscheduler.io/pod-group-preferred-topology"
"""Node labels, the narrowest first, of one of which all pods should have the same value. For groups of any API."""

_ADDITIONS: Final = frozenset({*QUEUES, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY})
"""Annotations that add to the requirements of a group of any API."""
REQUIREMENTS: Final = (MIN_COUNT, *_ADDITIONS)
"""Annotations with requirements of the group."""
ALL: Final = frozenset({GROUP_NAME, MIN_COUNT, MATCH_LABEL_KEYS, ROLE})
_LABELS_OF_CONTROLLERS: Final = (
    ("JobSet", ("jobset.sigs.k8s.io/jobset-name",), "jobset.sigs.k8s.io/jobset-uid"),
    (
        "LeaderWorkerSet",
        ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
        "leaderworkerset.sigs.k8s.io/group-key",
    ),
)
"""Labels with name and identity of a workload that does not own its pods: Jobs and StatefulSets own them."""
_MAX_TOPOLOGIES: Final = 16
"""Maximum number of node labels in one annotation: the domains of each are looked up in an attempt."""
_COUNT: Final = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def declaring_pods(members: Collection[Pod], distinct: Collection[Pod], names: Collection[str]) -> Collection[Pod]:
    """Return the pods whose annotations define the group: all if they are equal, else those that wait for a node.

    Pods of an edited template join those that run. If all have a node, the pod that started last defines the group.
    `distinct` has a pod of each signature.
    """
    if len({tuple(map(pod.annotations.get, names)) for pod in distinct}) == 1:
        return distinct
    waiting = first_of_signatures(pod for pod in members if not pod.node_name)
    return waiting or [max(members, key=lambda pod: (pod.started, pod.uid))]


def first_of_signatures(members: Iterable[Pod]) -> list[Pod]:
    """Return the first pod of each signature."""
    first: dict[PodSignature, Pod] = {}
    for pod in members:
        first.setdefault(pod.signature, pod)
    return [*first.values()]


def key_of(pod: Pod) -> PodGroupKey | None:
    """Return the group that the annotations of a pod declare; None if they declare none."""
    if name := pod.annotations.get(GROUP_NAME):
        key: PodGroupKey | None = PodGroupKey(pod.namespace, name)
    else:
        key = _key_of_controller(pod) if MIN_COUNT in pod.annotations else None
    if key is None or MATCH_LABEL_KEYS not in pod.annotations:
        return key
    keys = _match_label_keys(pod)
    if any(each not in pod.labels for each in keys):
        return None
    return key._replace(name="/".join((key.name, *(pod.labels[each] for each in keys))))


def _match_label_keys(pod: Pod) -> list[str]:
    return _split(pod.annotations.get(MATCH_LABEL_KEYS, ""))


def _key_of_controller(pod: Pod) -> PodGroupKey | None:
    """Return the group of the pods that have the controller of this one; None if it has none.

    A controller that is created anew has another UID, so pods of its predecessor do not count.
    """
    for kind, names, uid in _LABELS_OF_CONTROLLERS:
        if uid in pod.labels:
            return PodGroupKey(
                pod.namespace, f"{kind}/{'-'.join(pod.labels.get(n, '') for n in names)}", pod.labels[uid]
            )
    owner = pod.signature.owner
    return None if owner is None else PodGroupKey(pod.namespace, f"{owner.kind}/{owner.name}", owner.uid)


def missing(pod: Pod) -> str:
    """Return what the annotations of a pod without a group lack, "" if they declare nothing."""
    if ALL.isdisjoint(pod.annotations):
        return ""
    for key in _match_label_keys(pod):
        if key not in pod.labels:
            return f"annotation {MATCH_LABEL_KEYS} requires label {key}"
    controller = " or a controller of the pod" if MIN_COUNT in pod.annotations else ""
    required = f"the name of the group in annotation {GROUP_NAME}{controller}"
    return f"annotation {min(ALL & pod.annotations.keys())} requires {required}"


def read(key: PodGroupKey, members: Collection[Pod]) -> PodGroup | Rejection:
    """Return the requirements that the pods of a group declare, or the reason why they are invalid."""
    first = next(iter(members))
    min_count = common_value(MIN_COUNT, members)
    if isinstance(min_count, Rejection):
        return min_count
    if min_count is None:
        return _invalid(first, MIN_COUNT, "required for pods of a pod group")
    if not _COUNT.fullmatch(min_count):
        return _invalid(first, MIN_COUNT, f'"{min_count}" is not a number of pods from 1 to 999999999')
    return PodGroup(key, int(min_count))


def with_annotations(group: PodGroup, members: Collection[Pod]) -> PodGroup | Rejection:
    """Return a group of any API with the queue and the topologies that annotations of its pods add to it."""
    if all(map(_ADDITIONS.isdisjoint, [pod.signature.annotations for pod in members])):
        return group  # most groups: they are read for each group of a single pod
    queue = None if group.queue else _common_queue(members)
    if isinstance(queue, Rejection):
        return queue
    topology = group.topology
    for annotation, required in ((REQUIRED_TOPOLOGY, True), (PREFERRED_TOPOLOGY, False)):
        value = common_value(annotation, members)
        if isinstance(value, Rejection):
            return value
        if value:
            keys = _split(value)
            if len(keys) > _MAX_TOPOLOGIES:
                return _invalid(next(iter(members)), annotation, f"has more than {_MAX_TOPOLOGIES} node labels")
            topology += tuple(TopologyConstraint(key, required) for key in keys)
    if topology is group.topology and not queue:
        return group
    return replace(group, queue=group.queue or queue or "", topology=topology)


def _common_queue(members: Collection[Pod]) -> str | Rejection | None:
    """Return the queue that all pods name, None without one, or a Rejection if they name different ones."""
    for annotation in QUEUES:
        if queue := common_value(annotation, members):
            return queue
    return None


def common_value(annotation: str, members: Collection[Pod]) -> str | Rejection | None:
    """Return the value of an annotation, None if it is missing, or a Rejection if the pods have different ones."""
    first = next(iter(members))
    value = first.annotations.get(annotation)
    for pod in members:
        if pod is not first and pod.annotations.get(annotation) != value:
            return _differ(annotation, first, pod)
    return value


def _split(value: str) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()]


def _invalid(pod: Pod, annotation: str, why: str) -> Rejection:
    return Rejection(f"pod {pod.key}: annotation {annotation}: {why}", resolvable=False)


def _differ(annotation: str, one: Pod, other: Pod) -> Rejection:
    values = " and ".join(_quoted(pod.annotations.get(annotation)) for pod in (one, other))
    text = f"pods {one.key} and {other.key} of one pod group have different annotations {annotation}: {values}"
    return Rejection(text, resolvable=False)


def _quoted(value: str | None) -> str:
    return "none" if value is None else f'"{value}"'
