"""Kube-scheduler's in-tree plugins, one per file, written against the public `pyscheduler.api` only."""

from __future__ import annotations

from pyscheduler.api import Plugin
from pyscheduler.intree.composite_pod_groups import GangSchedulingOfTrees, GangSchedulingOfTreesByGroupPolicy
from pyscheduler.intree.default_binder import DefaultBinder
from pyscheduler.intree.default_preemption import DefaultPreemption
from pyscheduler.intree.deferred_pod_scheduling import DeferredPodScheduling
from pyscheduler.intree.dynamic_resources import (
    DynamicResources,
    DynamicResourcesOf136,
    DynamicResourcesWithIntegerRanges,
    DynamicResourcesWithoutTaintRules,
)
from pyscheduler.intree.gang_scheduling import GangScheduling, GangSchedulingByGroupPolicy
from pyscheduler.intree.image_locality import ImageLocality
from pyscheduler.intree.inter_pod_affinity import InterPodAffinity
from pyscheduler.intree.node_affinity import NodeAffinity
from pyscheduler.intree.node_declared_features import NodeDeclaredFeatures
from pyscheduler.intree.node_name import NodeName
from pyscheduler.intree.node_ports import NodePorts
from pyscheduler.intree.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.intree.node_resources_fit import NodeResourcesFit
from pyscheduler.intree.node_unschedulable import NodeUnschedulable
from pyscheduler.intree.node_volume_limits import NodeVolumeLimits, NodeVolumeLimitsByCount
from pyscheduler.intree.pod_group_pods_count import PodGroupPodsCount
from pyscheduler.intree.pod_topology_spread import PodTopologySpread
from pyscheduler.intree.priority_sort import PrioritySort
from pyscheduler.intree.scheduling_gates import SchedulingGates
from pyscheduler.intree.taint_toleration import TaintToleration
from pyscheduler.intree.topology_placement_generator import TopologyPlacementGenerator
from pyscheduler.intree.volume_binding import VolumeBinding, VolumeBindingWithoutScore
from pyscheduler.intree.volume_restrictions import VolumeRestrictions
from pyscheduler.intree.volume_zone import VolumeZone

__all__ = [
    "DEFAULT_MULTIPOINT",
    "FEATURE_GATES",
    "GATED_BEHAVIOUR",
    "PLUGINS",
    "DefaultBinder",
    "DefaultPreemption",
    "DeferredPodScheduling",
    "DynamicResources",
    "GangScheduling",
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "NodeVolumeLimits",
    "PodGroupPodsCount",
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "TopologyPlacementGenerator",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]

PLUGINS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    DeferredPodScheduling,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangSchedulingOfTreesByGroupPolicy,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)
"""All in-tree plugins, in the order of kube-scheduler's default MultiPoint list (1.37)."""

_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "PodGroupPodsCount": 1,
}

FEATURE_GATES = {
    "DeferredPodScheduling": "InPlacePodVerticalScalingSchedulerPreemption",
    "GangScheduling": "GenericWorkload",
    "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
}
"""Plugin name to the feature gate that must be on for the plugin to be available."""
GATED_BEHAVIOUR: tuple[tuple[tuple[str, ...], type[Plugin]], ...] = (
    (("DRAFractionalCapacityRange",), DynamicResourcesWithIntegerRanges),
    (("DRADeviceTaintRules",), DynamicResourcesWithoutTaintRules),
    (("DRAFractionalCapacityRange", "DRADeviceTaintRules"), DynamicResourcesOf136),
    (("StorageCapacityScoring",), VolumeBindingWithoutScore),
    (("VolumeLimitScaling",), NodeVolumeLimitsByCount),
    (("CompositePodGroup",), GangSchedulingByGroupPolicy),
    (("PodGroupPreemptionPolicy",), GangSchedulingOfTrees),
    (("CompositePodGroup", "PodGroupPreemptionPolicy"), GangScheduling),
)
"""Feature gates with the plugin of the same name that is used while all of them are off; the last one counts."""

DEFAULT_MULTIPOINT: tuple[tuple[str, int], ...] = tuple((p.name, _WEIGHTS.get(p.name, 0)) for p in PLUGINS)
"""Default plugins of a profile, as (name, weight); those with a disabled feature gate are left out later.

A weight of 0 means that kube-scheduler's default list states no weight, which counts as 1.
"""
