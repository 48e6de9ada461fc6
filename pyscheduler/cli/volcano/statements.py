"""What becomes of settings of Volcano that translate into no setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyscheduler.cli.volcano.draft import Result

Statement = tuple[Result, str]

ACTIONS: Final[Mapping[str, Statement]] = {
    "enqueue": (
        Result.DIFFERS,
        "Groups are attempted once their pods exist; nothing limits how many do.",
    ),
    "allocate": (Result.BUILT_IN, "All pods that a group needs are placed in one cycle, or none."),
    "backfill": (
        Result.BUILT_IN,
        "Pods without requests are scheduled like others. Small jobs start before a large one if they do not delay it.",
    ),
    "preempt": (Result.BUILT_IN, "Pods and groups evict pods of a lower priority and of the same queue."),
    "reclaim": (Result.BUILT_IN, "The plugin Queues reclaims what a queue has above its share."),
    "gangPreempt": (Result.BUILT_IN, "The pods that a group needs are evicted together, or not at all."),
    "gangReclaim": (Result.BUILT_IN, "The pods that a group needs are evicted together, or not at all."),
    "shuffle": (Result.MISSING, "Running pods are not moved; a descheduler can evict them."),
    "elect": (Result.BUILT_IN, "Nodes are reserved for the first job that lacks room."),
    "reserve": (Result.BUILT_IN, "Nodes are reserved for the first job that lacks room."),
}

PLUGINS: Final[Mapping[str, Statement]] = {
    "priority": (Result.BUILT_IN, "The queue is ordered by priority, then by time."),
    "conformance": (
        Result.DIFFERS,
        "Critical pods have the highest priorities. Set reclaimable: false on their queue, default.",
    ),
    "overcommit": (Result.MISSING, "No job waits before its pods exist, so nothing limits how many do."),
    "numaaware": (Result.MISSING, "The kubelet's topology manager applies on each node; no node is chosen by it."),
    "deviceshare": (Result.MISSING, "Devices are scheduled as whole extended resources, or by ResourceClaims."),
    "nodegroup": (Result.MISSING, "Bind queues to nodes by the node affinity of their pods."),
    "network-topology-aware": (
        Result.BUILT_IN,
        "A group with networkTopology is placed in one HyperNode of the lowest tier that has room.",
    ),
    "resource-strategy-fit": (
        Result.MISSING,
        "NodeResourcesFit has one strategy for all resources; BinPack has a weight for each.",
    ),
    "rescheduling": (Result.MISSING, "Running pods are not moved; a descheduler can evict them."),
    "cdp": (Result.MISSING, "Evicted pods have no cool-down; a queue that has reclaimed is not reclaimed from."),
    "pdb": (Result.BUILT_IN, "Pods that a PodDisruptionBudget protects are evicted last."),
    "extender": (Result.DIFFERS, "Extenders are those of kube-scheduler, and are called for pods without a group."),
    "resourcequota": (Result.BUILT_IN, "The API server rejects pods over a ResourceQuota."),
    "reservation": (Result.BUILT_IN, "Nodes are reserved for the first job that lacks room."),
}

ARGUMENTS_OF_ACTIONS: Final[Mapping[str, Statement]] = {
    "predicateErrorCacheEnable": (Result.BUILT_IN, "Results are cached for equal pods, and stay correct."),
    "enableTopologyAwarePreemption": (Result.BUILT_IN, "Victims are chosen in dry runs with all filters."),
}

FLAGS: Final = frozenset(
    {
        "enableJobOrder",
        "enableHierarchy",
        "enabledSubJobOrder",
        "enableJobReady",
        "enabledSubJobReady",
        "enableJobPipelined",
        "enabledSubJobPipelined",
        "enableTaskOrder",
        "enablePreemptable",
        "enableReclaimable",
        "enablePreemptive",
        "enableQueueOrder",
        "enabledClusterOrder",
        "enablePredicate",
        "enableBestNode",
        "enableNodeOrder",
        "enableTargetJob",
        "enableReservedNodes",
        "enableJobEnqueued",
        "enabledVictim",
        "enableJobStarving",
        "enabledOverused",
        "enabledAllocatable",
        "enabledHyperNodeOrder",
        "enabledHyperNodeGradient",
    }
)
"""Flags of plugins, in Volcano's two spellings."""
