"""PodGroups of scheduler-plugins' Coscheduling (scheduling.x-k8s.io): pods refer to them by a label."""

from __future__ import annotations

from typing import Final

from pyscheduler.api import Pod, PodGroup, Rejection
from pyscheduler.api.objects import ApiObject
from pyscheduler_plugins.pod_group import POD_GROUP, POD_GROUP_LABEL, pod_group_spec
from pyscheduler_plugins.pod_groups.declared import Declared, Metadata, Object, PodGroupApi, decode, invalid

GROUP: Final = POD_GROUP.group


class _PodGroup(ApiObject, frozen=True):
    metadata: Metadata


def _name_of(pod: Pod) -> str:
    return pod.labels.get(POD_GROUP_LABEL, "")


def read(obj: Object) -> Declared | Rejection:
    """Return the requirements in a PodGroup, or the reason why they cannot be met.

    scheduleTimeoutSeconds has no effect: all pods get their nodes in one group cycle, and none waits for others.
    """
    decoded = decode(obj, _PodGroup, GROUP)
    if isinstance(decoded, Rejection):
        return decoded
    metadata = decoded.metadata
    spec = pod_group_spec(obj, default_timeout=0.0)
    if isinstance(spec, str):
        return invalid(metadata.key(GROUP), spec, "missing or invalid value")
    return Declared(
        PodGroup(
            key=metadata.key(GROUP),
            min_count=spec.min_member,
            min_resources=spec.min_resources,
            created=metadata.creation_timestamp or "",
            uid=metadata.uid or "",
        )
    )


API: Final = PodGroupApi(GROUP, (POD_GROUP,), _name_of, read)
