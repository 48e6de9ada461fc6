"""Pods that declare a pod group by an API that no plugin of their profile reads.

They are scheduled one by one, as by kube-scheduler. An event and the log report it: a gang that starts in parts holds
nodes in vain.
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
POD_GROUP_IGNORED: Final = "PodGroupIgnored"
"""Reason of the event."""


def ignored_declaration(profile: Profile, pod: Pod) -> str:
    """Return the declaration of a group that no plugin of the profile reads; "" if there is none."""
    signature = pod.signature
    annotations, labels, group = signature.annotations, signature.labels, signature.spec.scheduling_group
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
        declaration = ignored_declaration(profile, pod)
        if not declaration or (old is not None and ignored_declaration(profile, old) == declaration):
            return
        self._instrument.pod_group_ignored(profile.name, declaration)
        named = declaration[0].upper() + declaration[1:]
        note = (
            f"{named} declares a pod group, which no plugin of profile {profile.name} reads: "
            "the pod is scheduled by itself. Enable the plugin PodGroups, as config/batch.yaml does."
        )
        self.events[pod.uid] = Record(EventType.WARNING, POD_GROUP_IGNORED, "Scheduling", note, pod)

    def take_events(self) -> list[Record]:
        """Return the events since the last call."""
        events, self.events = self.events, {}
        return list(events.values())
