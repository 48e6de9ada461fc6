"""Pods that declare a pod group or a queue by an API that no plugin of their profile reads.

They are scheduled one by one, as by kube-scheduler, or in another queue. An event and the log report it: a gang that
starts in parts holds nodes that do no work.
"""

from __future__ import annotations

from typing import Final

from pyscheduler.api.pod import Pod
from pyscheduler.core.commands import EventType, Record
from pyscheduler.core.framework.profile import Profile
from pyscheduler.core.instrument import Instrument

_ANNOTATIONS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pyscheduler.io/pod-group",
    "yunikorn.apache.org/task-group-name",
    "gang.scheduling.koordinator.sh/name",
)
_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)
GROUP_NAMES: Final = frozenset(_ANNOTATIONS + _LABELS)
"""Names of all annotations and labels that declare a group by some API."""
POD_GROUP_IGNORED, QUEUE_IGNORED = "PodGroupIgnored", "QueueIgnored"
"""Reasons of the events."""
_QUEUE_NAMES: Final = ("kueue.x-k8s.io/queue-name", "yunikorn.apache.org/queue", "kai.scheduler/queue")
"""Labels and annotations of other schedulers with the name of a queue."""
_KUEUE_GROUP, _KUEUE_MANAGES = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/managed"
"""Labels: the group of a pod, and a pod for which Kueue, which runs beside the scheduler, does this."""
_OWN_NAMES: Final = GROUP_NAMES | {
    "pyscheduler.io/pod-group-min-count",
    "pyscheduler.io/pod-group-queue",
    "scheduling.volcano.sh/queue-name",
}
"""Annotations and labels of pods that declare a group or name a queue in another way, too."""
REPORTED: Final = GROUP_NAMES | {*_QUEUE_NAMES, _KUEUE_GROUP, "applicationId"}
"""Names of all annotations and labels that may be ignored."""


def ignored_declaration(profile: Profile, pod: Pod) -> str:
    """Return the declaration of a group that no plugin of the profile reads; "" if there is none."""
    signature = pod.signature
    annotations, labels, group = signature.annotations, signature.labels, signature.spec.scheduling_group
    if _KUEUE_GROUP in labels and _KUEUE_MANAGES not in labels and _OWN_NAMES.isdisjoint((*annotations, *labels)):
        return f"the label {_KUEUE_GROUP}"
    if profile.pod_group is not None:
        return ""  # the plugin rejects what it does not support
    if group is not None:
        return "the field spec.schedulingGroup"
    for name in _ANNOTATIONS:
        if name in annotations:
            return f"the annotation {name}"
    # Gang, or a plugin of a user, may read the label.
    name = next((name for name in _LABELS if name in labels and name not in profile.indexes), "")
    return f"the label {name}" if name else ""


def ignored_queue(profile: Profile, pod: Pod) -> str:
    """Return the name of a queue that no plugin of a profile with queues reads; "" if there is none."""
    signature = pod.signature
    annotations, labels = signature.annotations, signature.labels
    if profile.quota is None or signature.spec.scheduling_group is not None or _KUEUE_MANAGES in labels:
        return ""
    for kind, names in (("label", labels), ("annotation", annotations)):
        for name in (*_QUEUE_NAMES, *(("queue",) if "applicationId" in labels else ())):  # YuniKorn's first labels
            if name in names and _OWN_NAMES.isdisjoint((*annotations, *labels)):
                return f"the {kind} {name}"
    return ""


class IgnoredGroups:
    """Events about pods with such declarations that have not been returned yet."""

    def __init__(self, instrument: Instrument) -> None:
        self._instrument = instrument
        self.events: dict[str, Record] = {}
        """Events by pod UID."""

    def check(self, profile: Profile, old: Pod | None, pod: Pod) -> None:
        """Report a pending pod that is new, or has another declaration than before."""
        if old is not None and old.signature is pod.signature:
            return
        for find, report in ((ignored_queue, self._report_queue), (ignored_declaration, self._report_group)):
            declaration = find(profile, pod)
            if declaration and (old is None or find(profile, old) != declaration):
                report(profile, pod, declaration)

    def _report_group(self, profile: Profile, pod: Pod, declaration: str) -> None:
        self._instrument.pod_group_ignored(profile.name, declaration)
        note = (
            f"{_capitalized(declaration)} declares a pod group, which no plugin of profile {profile.name} reads: "
            "the pod is scheduled by itself. "
        )
        if profile.pod_group is None:
            note += "Enable the plugin PodGroups, as config/batch.yaml does."
        else:
            note += "Declare the group as docs/pod-groups.md describes."
        self.events[pod.uid] = Record(EventType.WARNING, POD_GROUP_IGNORED, "Scheduling", note, pod)

    def _report_queue(self, profile: Profile, pod: Pod, declaration: str) -> None:
        self._instrument.queue_ignored(profile.name, declaration)
        note = (
            f"{_capitalized(declaration)} names a queue, which no plugin of profile {profile.name} reads: "
            "name the queue by the annotation pyscheduler.io/pod-group-queue of the pod."
        )
        self.events[pod.uid] = Record(EventType.WARNING, QUEUE_IGNORED, "Scheduling", note, pod)

    def take_events(self) -> list[Record]:
        """Return the events since the last call."""
        events, self.events = self.events, {}
        return list(events.values())


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]
