"""Feature gates of kube-scheduler 1.36, and which of them can be switched here.

Setting a gate that cannot be switched to its default is accepted, any other value is an error: ignoring it would give
other decisions than configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from pyscheduler.config.problems import did_you_mean

GENERIC_WORKLOAD = "GenericWorkload"
GANG_SCHEDULING = "GangScheduling"

_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
_COMPONENT = "kube:"
_ONE_BY_ONE = (
    f"feature gate {GENERIC_WORKLOAD}: the pods of a pod group are scheduled one by one; "
    "there is no scheduling cycle for whole pod groups"
)


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

    `locked`: kube-scheduler accepts the default only. `served`: both values are supported here. `needs`: gates that
    must be enabled if this one is.
    """

    name: str
    stage: FeatureStage
    default: bool
    locked: bool = False
    served: bool = False
    needs: tuple[str, ...] = ()


def _all(stage: FeatureStage, default: bool, names: str, *, locked: bool = False) -> tuple[FeatureGate, ...]:
    return tuple(FeatureGate(name, stage, default, locked) for name in names.split())


GATES: Mapping[str, FeatureGate] = {
    gate.name: gate
    for gate in (
        FeatureGate(GENERIC_WORKLOAD, FeatureStage.ALPHA, False, served=True),
        FeatureGate(GANG_SCHEDULING, FeatureStage.ALPHA, False, served=True, needs=(GENERIC_WORKLOAD,)),
        *_all(
            FeatureStage.ALPHA,
            False,
            "AllAlpha DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims "
            "StorageCapacityScoring TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling "
            "VolumeLimitScaling WorkloadAwarePreemption WorkloadWithJob",
        ),
        *_all(FeatureStage.BETA, False, "AllBeta CoordinatedLeaderElection DRADeviceTaintRules SchedulerAsyncAPICalls"),
        *_all(
            FeatureStage.BETA,
            True,
            "ClearingNominatedNodeNameAfterBinding DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints "
            "DRAExtendedResource DRAPartitionableDevices DRAResourceClaimDeviceStatus "
            "DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout "
            "InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread "
            "MatchLabelKeysInPodTopologySpreadSelectorMerge NodeDeclaredFeatures NominatedNodeNameForExpectation "
            "OpportunisticBatching PodLevelResources SchedulerAsyncPreemption SchedulerPopFromBackoffQ",
        ),
        *_all(FeatureStage.GA, True, "DRAPrioritizedList"),
        *_all(
            FeatureStage.GA,
            True,
            "DRAAdminAccess DynamicResourceAllocation ImageVolume InPlacePodVerticalScaling "
            "MatchLabelKeysInPodAffinity MutableCSINodeAllocatableCount NodeInclusionPolicyInPodTopologySpread "
            "PodObservedGenerationTracking PodSchedulingReadiness SchedulerQueueingHints SidecarContainers "
            "VolumeAttributesClass",
            locked=True,
        ),
    )
}
"""All known gates by name, as in kube-scheduler's pkg/features."""


class FeatureGates(msgspec.Struct, frozen=True):
    """Gate settings: the defaults, overridden by `settings`."""

    settings: Mapping[str, bool]

    def on(self, name: str) -> bool:
        """Return True if the gate is enabled. KeyError if it is unknown."""
        return self.settings.get(name, GATES[name].default)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Limitations of the enabled gates."""
        return (_ONE_BY_ONE,) if self.on(GENERIC_WORKLOAD) else ()


DEFAULTS = FeatureGates({})


def parse(texts: Iterable[str]) -> FeatureGates:
    """Return the gates set by `--feature-gates` texts such as `Name=true,Other=false`; later settings win.

    FeatureGateError for the first error.
    """
    settings: dict[str, bool] = {}
    for text in texts:
        for setting in filter(None, text.split(",")):
            name, value = _setting(setting)
            settings[name] = value
    gates = FeatureGates(settings)
    for gate in GATES.values():
        missing = [name for name in gate.needs if not gates.on(name)]
        if gates.on(gate.name) and missing:
            listed = " ".join(missing)
            raise FeatureGateError(f"{gate.name} is enabled, but depends on features that are disabled: [{listed}]")
    return gates


def _setting(text: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.removeprefix(_COMPONENT)
    if not equals:
        raise FeatureGateError(f"missing bool value for {name}")
    if value not in (*_TRUE, *_FALSE):
        raise FeatureGateError(f"invalid value of {name}={value}: must be true or false")
    on = value in _TRUE
    gate = GATES.get(name)
    if gate is None:
        hint = did_you_mean(name, GATES) or f"; known are {', '.join(sorted(GATES))}"
        raise FeatureGateError(f"unrecognized feature gate: {name}{hint}")
    if on != gate.default and not gate.served:
        why = f"feature is locked to {_word(gate.default)}" if gate.locked else "this scheduler cannot switch it"
        raise FeatureGateError(f"cannot set feature gate {name} to {_word(on)}, {why}")
    return name, on


def _word(value: bool) -> str:
    return "true" if value else "false"
