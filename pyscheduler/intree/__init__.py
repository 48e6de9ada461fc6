"""Kube-scheduler's own plugins, one a file, written against `pyscheduler.api` like anyone's."""

from __future__ import annotations

from pyscheduler.api import Plugin
from pyscheduler.intree.default_binder import DefaultBinder
from pyscheduler.intree.image_locality import ImageLocality
from pyscheduler.intree.node_affinity import NodeAffinity
from pyscheduler.intree.node_name import NodeName
from pyscheduler.intree.node_ports import NodePorts
from pyscheduler.intree.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from pyscheduler.intree.node_resources_fit import NodeResourcesFit
from pyscheduler.intree.node_unschedulable import NodeUnschedulable
from pyscheduler.intree.priority_sort import PrioritySort
from pyscheduler.intree.scheduling_gates import SchedulingGates
from pyscheduler.intree.taint_toleration import TaintToleration

__all__ = [
    "DEFAULT_MULTIPOINT",
    "NOT_YET",
    "PLUGINS",
    "DefaultBinder",
    "ImageLocality",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "PrioritySort",
    "SchedulingGates",
    "TaintToleration",
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
    # VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone
    # PodTopologySpread, InterPodAffinity
    # DynamicResources
    # DefaultPreemption
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    # NodeDeclaredFeatures
)
"""Every plugin that is here, in the order of kube-scheduler's default MultiPoint list (1.36)."""

_WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2}

DEFAULT_MULTIPOINT: tuple[tuple[str, int], ...] = tuple((p.name, _WEIGHTS.get(p.name, 0)) for p in PLUGINS)
"""What a profile runs unless told otherwise: name and weight, 0 where kube-scheduler states none (it then means 1)."""

NOT_YET: tuple[str, ...] = (
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "DefaultPreemption",
    "NodeDeclaredFeatures",
    "GangScheduling",
    "TopologyPlacementGenerator",
    "PodGroupPodsCount",
)
"""Plugins that kube-scheduler has and this does not have yet; configurations may name them."""
