"""Feature gates of kube-scheduler 1.37, and which of them can be switched here.

With `--emulated-version=1.36` they have the defaults of that version, as kube-scheduler's have; nothing else changes.

Setting a gate that cannot be switched to its default is accepted, any other value is an error: ignoring it would give
other decisions than configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

import msgspec

from pyscheduler.config.problems import did_you_mean

TARGET = "1.37"
"""Kubernetes version of the kube-scheduler that this scheduler matches."""
GENERIC_WORKLOAD = "GenericWorkload"
TOPOLOGY_AWARE_WORKLOADS = "TopologyAwareWorkloadScheduling"
COMPOSITE_POD_GROUP = "CompositePodGroup"
POD_GROUP_PREEMPTION_POLICY = "PodGroupPreemptionPolicy"
STORAGE_CAPACITY_SCORING = "StorageCapacityScoring"
VOLUME_LIMIT_SCALING = "VolumeLimitScaling"
DEVICE_TAINT_RULES = "DRADeviceTaintRules"
RESIZE_PREEMPTION = "InPlacePodVerticalScalingSchedulerPreemption"

_UNCONDITIONAL = "since Kubernetes 1.37 it is always on, so remove the setting"
_REMOVED = {
    "GangScheduling": f"since Kubernetes 1.37 it is part of {GENERIC_WORKLOAD}",
    "WorkloadAwarePreemption": f"since Kubernetes 1.37 it is part of {GENERIC_WORKLOAD}",
    "SchedulerQueueingHints": _UNCONDITIONAL,
    "SidecarContainers": _UNCONDITIONAL,
}
"""Gates of 1.36 that kube-scheduler 1.37 does not accept, with what to do."""
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_COMPONENT = "kube:"


class FeatureGateError(ValueError):
    """Invalid feature gate setting; the text is one line."""


class FeatureStage(StrEnum):
    """Maturity of a feature in Kubernetes."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"

    @property
    def label(self) -> str:
        """Name in metrics; "" for GA, as in Kubernetes."""
        return "" if self is FeatureStage.GA else self.value


class FeatureGate(msgspec.Struct, frozen=True):
    """One feature gate.

    `locked`: kube-scheduler accepts the default only. `served`: both values are supported here. Some of these have no
    effect: other components read them, or they only change how kube-scheduler computes its decisions.
    """

    name: str
    stage: FeatureStage
    default: bool
    locked: bool = False
    served: bool = False


def _all(
    stage: FeatureStage, default: bool, names: str, *, locked: bool = False, served: bool = False
) -> tuple[FeatureGate, ...]:
    return tuple(FeatureGate(name, stage, default, locked, served) for name in names.split())


_OF_1_37 = (
    FeatureGate(GENERIC_WORKLOAD, FeatureStage.BETA, False, served=True),
    # On by default only with --min-compatibility-version 1.37, and that of kube-scheduler is 1.36 by default.
    FeatureGate("DRAFractionalCapacityRange", FeatureStage.BETA, False, served=True),
    FeatureGate(TOPOLOGY_AWARE_WORKLOADS, FeatureStage.ALPHA, False, served=True),
    FeatureGate(COMPOSITE_POD_GROUP, FeatureStage.ALPHA, False, served=True),
    FeatureGate(POD_GROUP_PREEMPTION_POLICY, FeatureStage.ALPHA, False, served=True),
    FeatureGate(RESIZE_PREEMPTION, FeatureStage.ALPHA, False, served=True),
    FeatureGate(STORAGE_CAPACITY_SCORING, FeatureStage.BETA, True, served=True),
    FeatureGate(VOLUME_LIMIT_SCALING, FeatureStage.BETA, True, served=True),
    *_all(
        FeatureStage.ALPHA,
        False,
        "AllAlpha DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes "
        "DRANodeAllocatableResources DRAOptionalNodeOperations DRAPartitionableDevicesType "
        "TaintTolerationComparisonOperators",
    ),
    *_all(
        FeatureStage.ALPHA,
        False,
        "InterPodAffinityHostnameFastPath SchedulerPreQueueingHints WorkloadWithJob",
        served=True,
    ),
    *_all(
        FeatureStage.BETA, False, "AllBeta CoordinatedLeaderElection DRAWorkloadResourceClaims SchedulerAsyncAPICalls"
    ),
    *_all(
        FeatureStage.BETA,
        True,
        "ClearingNominatedNodeNameAfterBinding DRAConsumableCapacity DRADeviceBindingConditions "
        "DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization "
        "DRASchedulerFilterTimeout InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread "
        "MatchLabelKeysInPodTopologySpreadSelectorMerge NominatedNodeNameForExpectation OpportunisticBatching "
        "PodLevelResources SchedulerAsyncPreemption SchedulerPopFromBackoffQ",
    ),
    *_all(FeatureStage.BETA, True, "PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass", served=True),
    FeatureGate(DEVICE_TAINT_RULES, FeatureStage.GA, True, served=True),
    *_all(FeatureStage.GA, True, "DRADeviceTaints"),
    *_all(
        FeatureStage.GA,
        True,
        "DRAAdminAccess DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus "
        "DynamicResourceAllocation ImageVolume InPlacePodVerticalScaling InPlacePodVerticalScalingInitContainers "
        "MatchLabelKeysInPodAffinity MutableCSINodeAllocatableCount NodeDeclaredFeatures "
        "NodeInclusionPolicyInPodTopologySpread PodObservedGenerationTracking PodSchedulingReadiness "
        "VolumeAttributesClass",
        locked=True,
    ),
)
GATES: Mapping[str, FeatureGate] = {gate.name: gate for gate in _OF_1_37}
"""All known gates of the target version by name, as in kube-scheduler's pkg/features."""

_CHANGED_SINCE_1_36 = (
    FeatureGate(GENERIC_WORKLOAD, FeatureStage.ALPHA, False, served=True),
    FeatureGate(STORAGE_CAPACITY_SCORING, FeatureStage.ALPHA, False, served=True),
    FeatureGate(VOLUME_LIMIT_SCALING, FeatureStage.ALPHA, False, served=True),
    *_all(FeatureStage.ALPHA, False, "DRAWorkloadResourceClaims"),
    FeatureGate(DEVICE_TAINT_RULES, FeatureStage.BETA, False, served=True),
    *_all(
        FeatureStage.BETA,
        True,
        "DRADeviceTaints DRAExtendedResource DRAResourceClaimDeviceStatus InPlacePodVerticalScalingInitContainers "
        "NodeDeclaredFeatures",
    ),
    *_all(FeatureStage.GA, True, "DRAPrioritizedList"),
)
_NEW_IN_1_37 = frozenset(
    [
        COMPOSITE_POD_GROUP,
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAFractionalCapacityRange",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevicesType",
        RESIZE_PREEMPTION,
        "InterPodAffinityHostnameFastPath",
        POD_GROUP_PREEMPTION_POLICY,
        "PodLevelResourcesFixDefaulting",
        "PodLevelResourcesFixKubeletQOSClass",
        "SchedulerPreQueueingHints",
    ]
)
_VERSIONS: Mapping[str, Mapping[str, FeatureGate]] = {
    TARGET: GATES,
    "1.36": {
        **{name: gate for name, gate in GATES.items() if name not in _NEW_IN_1_37},
        **{gate.name: gate for gate in _CHANGED_SINCE_1_36},
    },
}
EMULATED_VERSIONS: Sequence[str] = sorted(_VERSIONS)
"""Values of `--emulated-version`."""


_DEPENDENCIES: Mapping[str, Sequence[str]] = {
    TOPOLOGY_AWARE_WORKLOADS: (GENERIC_WORKLOAD,),
    POD_GROUP_PREEMPTION_POLICY: (GENERIC_WORKLOAD,),
    "WorkloadWithJob": (GENERIC_WORKLOAD,),
    COMPOSITE_POD_GROUP: (GENERIC_WORKLOAD, TOPOLOGY_AWARE_WORKLOADS),
}
"""Gates that a gate needs to be on."""


class FeatureGates(msgspec.Struct, frozen=True):
    """Gate settings: the defaults of a version, overridden by `settings`."""

    settings: Mapping[str, bool]
    version: str = TARGET

    @property
    def known(self) -> Mapping[str, FeatureGate]:
        """Gates of the version by name."""
        return _VERSIONS[self.version]

    def on(self, name: str) -> bool:
        """Return True if the gate is enabled; one of a later version is not. KeyError if it is unknown."""
        if name in _NEW_IN_1_37 and name not in self.known:
            return False
        return self.settings.get(name, self.known[name].default)


DEFAULTS = FeatureGates({})


def parse(texts: Iterable[str], version: str = TARGET) -> FeatureGates:
    """Return the gates set by `--feature-gates` texts such as `Name=true,Other=false`; later settings win.

    `version` is the emulated version. FeatureGateError for the first error.
    """
    settings: dict[str, bool] = {}
    for text in texts:
        for setting in filter(None, text.split(",")):
            name, value = _setting(setting, version)
            settings[name] = value
    gates = FeatureGates(settings, version)
    for name, needed in _DEPENDENCIES.items():
        missing = [each for each in needed if gates.on(name) and not gates.on(each)]
        if missing:
            # The text is component-base's.
            text = f"{name} is enabled, but depends on features that are disabled: [{' '.join(missing)}]"
            raise FeatureGateError(text)
    return gates


def _setting(text: str, version: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.removeprefix(_COMPONENT)
    if not equals:
        raise FeatureGateError(f"missing bool value for {name}")
    if value not in (*_TRUE, *_FALSE):
        raise FeatureGateError(f"invalid value of {name}={value}: must be true or false")
    on = value in _TRUE
    gate = _VERSIONS[version].get(name)
    if gate is None and name in GATES:
        raise FeatureGateError(
            f"cannot set feature gate {name} to {_word(on)}, feature is PreAlpha at emulated version {version}"
        )
    if gate is None and name in _REMOVED:
        raise FeatureGateError(f"unrecognized feature gate: {name}; {_REMOVED[name]}")
    if gate is None:
        hint = did_you_mean(name, GATES) or f"; known are {', '.join(sorted(GATES))}"
        raise FeatureGateError(f"unrecognized feature gate: {name}{hint}")
    if on != gate.default and not gate.served:
        why = f"feature is locked to {_word(gate.default)}" if gate.locked else "this scheduler cannot switch it"
        raise FeatureGateError(f"cannot set feature gate {name} to {_word(on)}, {why}")
    return name, on


def _word(value: bool) -> str:
    return "true" if value else "false"
