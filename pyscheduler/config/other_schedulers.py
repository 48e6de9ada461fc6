"""Plugins of scheduler-plugins and Volcano by name, with what a configuration enables here instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NO_USAGE: Final = "there is none; Usage keeps pods off busy nodes by measured usage"
_NO_NETWORK: Final = "there is none; spread constraints and pod affinity place pods by zone"
_NONE: Final = "there is none"
_BUILT_IN: Final = "it is built in"

SCHEDULER_PLUGINS: Final[Mapping[str, str]] = {
    "Coscheduling": "use PodGroups, which reads the same PodGroup objects",
    "CapacityScheduling": "use Queues with PodGroups, which reads the same ElasticQuota objects",
    "QOSSort": "use QoSSort",
    "NodeResourcesAllocatable": "use NodeResourcesFit or BinPack, which score by what is requested",
    "TargetLoadPacking": _NO_USAGE,
    "LoadVariationRiskBalancing": _NO_USAGE,
    "LowRiskOverCommitment": _NO_USAGE,
    "Peaks": _NO_USAGE,
    "NodeResourceTopologyMatch": "there is none for NUMA zones; the kubelet's topology manager applies on each node",
    "NetworkOverhead": _NO_NETWORK,
    "TopologicalSort": _NO_NETWORK,
    "PreemptionToleration": "there is none; a PriorityClass with preemptionPolicy Never comes closest",
    "SySched": _NONE,
    "PodState": _NONE,
    "CrossNodePreemption": "use PodGroups: a group preempts on all nodes at once",
}
VOLCANO: Final[Mapping[str, str]] = {
    "gang": "use PodGroups",
    "drf": "use Queues with jobOrder: drf",
    "proportion": "use Queues",
    "capacity": "use Queues",
    "predicates": f"{_BUILT_IN}: the filters of kube-scheduler",
    "nodeorder": f"{_BUILT_IN}: the weights of the score plugins",
    "binpack": "use BinPack",
    "priority": f"{_BUILT_IN}: PrioritySort",
    "pdb": f"{_BUILT_IN}: DefaultPreemption",
    "conformance": "use priority classes, and reclaimable: false on the queue of critical pods",
    "task-topology": "use TaskTopology",
    "sla": "use SLASort",
    "usage": "use Usage",
    "network-topology-aware": f"{_BUILT_IN}: PodGroups reads HyperNodes",
    "extender": f"{_BUILT_IN}: the field extenders",
    "resourcequota": f"{_BUILT_IN}: the API server enforces ResourceQuotas",
    "reservation": f"{_BUILT_IN}: Queues reserves nodes for the first job that lacks room",
    "overcommit": _NONE,
    "tdm": "use TimeSlots",
    "numaaware": "there is none for NUMA zones; the kubelet's topology manager applies on each node",
    "deviceshare": "use ResourceClaims (DynamicResources) or extended resources",
    "nodegroup": "there is none; use the node affinity of the pods",
    "resource-strategy-fit": "use NodeResourcesFit or BinPack",
    "rescheduling": "there is none; a descheduler can evict pods",
    "cdp": _NONE,
}


def replacement(name: str) -> str:
    """Return which scheduler has a plugin of this name and what is used here instead; "" for any other name."""
    for project, plugins in (("scheduler-plugins", SCHEDULER_PLUGINS), ("Volcano", VOLCANO)):
        if name in plugins:
            return f"it is a plugin of {project}; here, {plugins[name]}"
    return ""
