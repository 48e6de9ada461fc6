"""Merge keys of lists of the built-in kinds, which the OpenAPI models lack.

Taken from the patchMergeKey, listType and listMapKey markers of k8s.io/api (1.36). A list that is not in this table is
atomic for server-side apply and replaced by a strategic merge patch.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Merge:
    """`keys` for server-side apply, `patch_key` for strategic merge (None: the first of `keys`)."""

    keys: tuple[str, ...] = ()
    patch_key: str | None = None
    is_set: bool = False
    patch_set: bool = False


def _by(*keys: str) -> Merge:
    return Merge(keys=keys)


_CONDITIONS = _by("type")
_APPLY_ONLY_CONDITIONS = Merge(keys=("type",), patch_key="")
_SET = Merge(is_set=True)
_CONTAINER = {
    "env": _by("name"),
    "ports": _by("containerPort", "protocol"),
    "volumeDevices": _by("devicePath"),
    "volumeMounts": _by("mountPath"),
}

LISTS: dict[str, dict[str, Merge]] = {
    "V1ObjectMeta": {"finalizers": Merge(is_set=True, patch_set=True), "ownerReferences": _by("uid")},
    "V1Container": _CONTAINER,
    "V1EphemeralContainer": _CONTAINER,
    "V1ContainerStatus": {"volumeMounts": _by("mountPath"), "allocatedResourcesStatus": _by("name")},
    "V1PodSpec": {
        "containers": _by("name"),
        "ephemeralContainers": _by("name"),
        "hostAliases": _by("ip"),
        "imagePullSecrets": _by("name"),
        "initContainers": _by("name"),
        "resourceClaims": _by("name"),
        "schedulingGates": _by("name"),
        "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
        "volumes": _by("name"),
    },
    "V1PodStatus": {
        "conditions": _CONDITIONS,
        "hostIPs": Merge(patch_key="ip"),
        "podIPs": _by("ip"),
        "resourceClaimStatuses": _by("name"),
    },
    "V1ResourceRequirements": {"claims": Merge(keys=("name",), patch_key="")},
    "V1NodeSpec": {"podCIDRs": Merge(is_set=True, patch_set=True)},
    "V1NodeStatus": {"addresses": _by("type"), "conditions": _CONDITIONS},
    "V1ServiceAccount": {"secrets": _by("name")},
    "V1ServiceSpec": {"ports": _by("port", "protocol")},
    "V1JobStatus": {"conditions": Merge(patch_key="type")},
    "V1UncountedTerminatedPods": {"failed": _SET, "succeeded": _SET},
    "V1PodFailurePolicyOnExitCodesRequirement": {"values": _SET},
    "V1CSINodeSpec": {"drivers": _by("name")},
    "V1CSIDriverSpec": {"volumeLifecycleModes": _SET},
    "V1ResourceClaimStatus": {
        "devices": Merge(keys=("driver", "device", "pool", "shareID"), patch_key=""),
        "reservedFor": _by("uid"),
    },
    "V1AllocatedDeviceStatus": {"conditions": _APPLY_ONLY_CONDITIONS},
    "V1CustomResourceDefinitionStatus": {"conditions": _APPLY_ONLY_CONDITIONS},
    **{
        f"V1{kind}Status": {"conditions": _CONDITIONS}
        for kind in (
            "DaemonSet",
            "Deployment",
            "Namespace",
            "PersistentVolumeClaim",
            "PodDisruptionBudget",
            "ReplicaSet",
            "ReplicationController",
            "Service",
            "StatefulSet",
        )
    },
}

ATOMIC_MAPS = {
    ("V1PodSpec", "nodeSelector"),
    ("V1ReplicationControllerSpec", "selector"),
    ("V1ServiceSpec", "selector"),
    ("V1LabelSelector", ""),
    ("V1NodeSelector", ""),
    ("V1ObjectReference", ""),
    ("V1LocalObjectReference", ""),
    ("V1SecretKeySelector", ""),
    ("V1ConfigMapKeySelector", ""),
    ("V1TypedLocalObjectReference", ""),
}
"""Maps and structs that are replaced as a whole: (type, field), or (type, "") for the type wherever it occurs."""

PATCH_REPLACES = {("V1PodDisruptionBudgetSpec", "selector")}
"""Objects that a strategic merge patch replaces instead of merging into them."""

RETAIN_KEYS = {("V1DeploymentSpec", "strategy"), ("V1PodSpec", "volumes"), ("V1PodSpec", "resourceClaims")}
"""Fields for which clients that compute a strategic merge patch must send $retainKeys."""

KEY_DEFAULTS = {"protocol": "TCP"}
"""Default values of merge keys that an item may omit."""

QUANTITY_FIELDS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "podFixed",
    "requests",
    "used",
}
"""Maps of quantities, which clients may write as JSON numbers."""

QUANTITY_SCALARS = {
    ("V1EmptyDirVolumeSource", "sizeLimit"),
    ("V1ResourceFieldSelector", "divisor"),
    ("V1CSIStorageCapacity", "capacity"),
    ("V1CSIStorageCapacity", "maximumVolumeSize"),
    ("V1Counter", "value"),
    ("V1DeviceCapacity", "value"),
}
"""Single quantities, which clients may write as JSON numbers."""
