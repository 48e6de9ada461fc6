"""Feature gates: kube-scheduler's switches (1.36), those that this scheduler knows, and which of them it has.

What a gate switches cannot always be switched here. Asking for such a gate's default is taken, asking for anything
else is refused: a scheduler that ignored it would decide differently from what it was told to.
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
    f"feature gate {GENERIC_WORKLOAD}: the pods of a pod group are tried one by one; "
    "there is no scheduling cycle for whole pod groups"
)


class GateProblem(ValueError):
    """A setting of feature gates that cannot be followed; the text is one line."""


class Stage(StrEnum):
    """How far Kubernetes has come with a feature."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"

    @property
    def label(self) -> str:
        """What metrics call it, as those of Kubernetes do: what is GA has no stage any more."""
        return "" if self is Stage.GA else self.value


class Gate(msgspec.Struct, frozen=True):
    """One switch.

    `locked`: kube-scheduler, too, has it at its default only. `served`: both positions can be had here.
    `needs`: the gates that have to be on when this one is.
    """

    name: str
    stage: Stage
    default: bool
    locked: bool = False
    served: bool = False
    needs: tuple[str, ...] = ()


def _all(stage: Stage, default: bool, names: str, *, locked: bool = False) -> tuple[Gate, ...]:
    return tuple(Gate(name, stage, default, locked) for name in names.split())


GATES: Mapping[str, Gate] = {
    gate.name: gate
    for gate in (
        Gate(GENERIC_WORKLOAD, Stage.ALPHA, False, served=True),
        Gate(GANG_SCHEDULING, Stage.ALPHA, False, served=True, needs=(GENERIC_WORKLOAD,)),
        *_all(
            Stage.ALPHA,
            False,
            "AllAlpha DRAListTypeAttributes DRANodeAllocatableResources DRAWorkloadResourceClaims "
            "StorageCapacityScoring TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling "
            "VolumeLimitScaling WorkloadAwarePreemption WorkloadWithJob",
        ),
        *_all(Stage.BETA, False, "AllBeta CoordinatedLeaderElection DRADeviceTaintRules SchedulerAsyncAPICalls"),
        *_all(
            Stage.BETA,
            True,
            "ClearingNominatedNodeNameAfterBinding DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints "
            "DRAExtendedResource DRAPartitionableDevices DRAResourceClaimDeviceStatus "
            "DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout "
            "InPlacePodLevelResourcesVerticalScaling MatchLabelKeysInPodTopologySpread "
            "MatchLabelKeysInPodTopologySpreadSelectorMerge NodeDeclaredFeatures NominatedNodeNameForExpectation "
            "OpportunisticBatching PodLevelResources SchedulerAsyncPreemption SchedulerPopFromBackoffQ",
        ),
        *_all(Stage.GA, True, "DRAPrioritizedList"),
        *_all(
            Stage.GA,
            True,
            "DRAAdminAccess DynamicResourceAllocation ImageVolume InPlacePodVerticalScaling "
            "MatchLabelKeysInPodAffinity MutableCSINodeAllocatableCount NodeInclusionPolicyInPodTopologySpread "
            "PodObservedGenerationTracking PodSchedulingReadiness SchedulerQueueingHints SidecarContainers "
            "VolumeAttributesClass",
            locked=True,
        ),
    )
}
"""Every gate that can be named, by name, as in kube-scheduler's pkg/features."""


class Gates(msgspec.Struct, frozen=True):
    """Which gates are on: the defaults, unless `given` says otherwise."""

    given: Mapping[str, bool]

    def on(self, name: str) -> bool:
        """Whether a gate is on. KeyError if there is no such gate."""
        return self.given.get(name, GATES[name].default)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is different from what one might expect of the gates that are on."""
        return (_ONE_BY_ONE,) if self.on(GENERIC_WORKLOAD) else ()


DEFAULTS = Gates({})


def parse(texts: Iterable[str]) -> Gates:
    """The gates that `--feature-gates` sets, each text being `Name=true,Other=false`; later ones go before earlier.

    GateProblem for the first thing that is wrong.
    """
    given: dict[str, bool] = {}
    for text in texts:
        for setting in filter(None, text.split(",")):
            name, value = _setting(setting)
            given[name] = value
    gates = Gates(given)
    for gate in GATES.values():
        missing = [name for name in gate.needs if not gates.on(name)]
        if gates.on(gate.name) and missing:
            listed = " ".join(missing)
            raise GateProblem(f"{gate.name} is enabled, but depends on features that are disabled: [{listed}]")
    return gates


def _setting(text: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.removeprefix(_COMPONENT)
    if not equals:
        raise GateProblem(f"missing bool value for {name}")
    if value not in (*_TRUE, *_FALSE):
        raise GateProblem(f"invalid value of {name}={value}: must be true or false")
    on = value in _TRUE
    gate = GATES.get(name)
    if gate is None:
        hint = did_you_mean(name, GATES) or f"; known are {', '.join(sorted(GATES))}"
        raise GateProblem(f"unrecognized feature gate: {name}{hint}")
    if on != gate.default and not gate.served:
        why = f"feature is locked to {_word(gate.default)}" if gate.locked else "this scheduler cannot switch it"
        raise GateProblem(f"cannot set feature gate {name} to {_word(on)}, {why}")
    return name, on


def _word(value: bool) -> str:
    return "true" if value else "false"
