"""Kube-scheduler's own plugins, one a file, written against `pyscheduler.api` like anyone's."""

from __future__ import annotations

from pyscheduler.api import Plugin
from pyscheduler.intree.default_binder import DefaultBinder
from pyscheduler.intree.default_preemption import DefaultPreemption
from pyscheduler.intree.dynamic_resources import DynamicResources
from pyscheduler.intree.gang_scheduling import GangScheduling
from pyscheduler.intree.image_locality import ImageLocality
from pyscheduler.intree.inter_pod_affinity import InterPodAffinity
from pyscheduler.intree.node_affinity import NodeAffinity
from pyscheduler.intree.node_declared_features import NodeDeclaredFeatures
from pyscheduler.intree.node_name import NodeName
from pyscheduler.intree.node_ports import NodePorts
from pyscheduler.intree.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.intree.node_resources_fit import NodeResourcesFit
from pyscheduler.intree.node_unschedulable import NodeUnschedulable
from pyscheduler.intree.node_volume_limits import NodeVolumeLimits
from pyscheduler.intree.pod_topology_spread import PodTopologySpread
from pyscheduler.intree.priority_sort import PrioritySort
from pyscheduler.intree.scheduling_gates import SchedulingGates
from pyscheduler.intree.taint_toleration import TaintToleration
from pyscheduler.intree.volume_binding import VolumeBinding
from pyscheduler.intree.volume_restrictions import VolumeRestrictions
from pyscheduler.intree.volume_zone import VolumeZone

__all__ = [
    "DEFAULT_MULTIPOINT",
    "FEATURE_GATES",
    "PLUGINS",
    "UNSUPPORTED_PLUGINS",
    "DefaultBinder",
    "DefaultPreemption",
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
    "PodTopologySpread",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]

PLUGINS: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
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
    GangScheduling,
)
"""Every plugin that is here, in the order of kube-scheduler's default MultiPoint list (1.36)."""

_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
}

FEATURE_GATES = {"GangScheduling": "GangScheduling"}
"""The feature gate of each plugin that is there only while that is on."""

DEFAULT_MULTIPOINT: tuple[tuple[str, int], ...] = tuple((p.name, _WEIGHTS.get(p.name, 0)) for p in PLUGINS)
"""What a profile runs unless told otherwise, as far as gates let it: name and weight.

0 stands where kube-scheduler states none (it then means 1).
"""

UNSUPPORTED_PLUGINS: tuple[str, ...] = (
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
"""Plugins that kube-scheduler has behind alpha feature gates and this does not have; configurations may name them."""
