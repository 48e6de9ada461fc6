"""The vocabulary of workload files: kubernetes' scheduler_perf's, as far as it is spoken here.

A field that is not listed here is an error, never ignored: a workload that means less than it says measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

Json = dict[str, Any]


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    pass


class _Op(_Part, tag_field="opcode"):
    pass


class Counted(_Op, kw_only=True):
    """How many: a number, or the name of a workload's parameter with a $ before it."""

    count: int | None = None
    count_param: str | None = None


class LabelNodePrepareStrategy(_Part):
    """Nodes get the label with these values in turn."""

    label_key: str
    label_values: Sequence[str]


class UniqueNodeLabelStrategy(_Part):
    """Each node gets the label with its own name."""

    label_key: str


class CSINodeAllocatable(_Part):
    """How many volumes of a driver a node takes."""

    count: int


class NodeAllocatableStrategy(_Part):
    """What nodes have besides their template's: resources, and limits of CSI drivers."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, CSINodeAllocatable] = msgspec.field(name="csiNodeAllocatable", default={})
    migrated_plugins: Sequence[str] = ()


class CreateNodes(Counted, tag="createNodes"):
    """Nodes without a kubelet behind them."""

    node_template_path: str | None = None
    node_template: Json | None = None
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None


class CreateNamespaces(Counted, tag="createNamespaces", kw_only=True):
    """Namespaces PREFIX-0, PREFIX-1 …"""

    prefix: str
    namespace_template_path: str | None = None
    namespace_template: Json | None = None


class CreatePods(Counted, tag="createPods"):
    """Pods; without a namespace in one of their own. `skip_wait_to_completion`: they are not placed beforehand."""

    namespace: str | None = None
    pod_template_path: str | None = None
    pod_template: Json | None = None
    persistent_volume_template_path: str | None = None
    persistent_volume_template: Json | None = None
    persistent_volume_claim_template_path: str | None = None
    persistent_volume_claim_template: Json | None = None
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False


class CreatePodSets(Counted, tag="createPodSets", kw_only=True):
    """The same pods in each of the namespaces PREFIX-0, PREFIX-1 …"""

    namespace_prefix: str
    create_pods_op: CreatePods


class CreateAny(Counted, tag="createAny"):
    """Objects of any kind; one unless a count is given."""

    namespace: str | None = None
    template_path: str | None = None
    template: Json | None = None


class Churn(_Op, tag="churn"):
    """One object of each template an interval, until the measured pods are bound.

    `create`: at most `number` each (0: no end). `recreate`: `number` places, each in turn filled and emptied.
    """

    mode: Literal["create", "recreate"]
    number: int = 0
    interval_milliseconds: int = 500
    template_paths: Sequence[str] = ()
    templates: Sequence[Json] = ()
    namespace: str | None = None


class DeletePods(_Op, tag="deletePods"):
    """Deletes the namespace's pods, all at once or so many a second."""

    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: float = 0.0
    skip_wait_to_completion: bool = False


class UpdateAny(Counted, tag="updateAny"):
    """Merges the template into objects that exist, all at once or so many a second."""

    namespace: str | None = None
    template_path: str | None = None
    template: Json | None = None
    update_per_second: float = 0.0


class Barrier(_Op, tag="barrier"):
    """Waits for the pods made so far: until they are bound, or until each was tried once."""

    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"
    namespaces: Sequence[str] = ()
    label_selector: dict[str, str] = {}


class Sleep(_Op, tag="sleep"):
    """Waits: "500ms", "2s"."""

    duration: str


class StartCollectingMetrics(_Op, tag="startCollectingMetrics"):
    """From here on pods of these namespaces (all without any) that have these labels are measured."""

    name: str = ""
    namespaces: Sequence[str] = ()
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(_Op, tag="stopCollectingMetrics"):
    """Pods made later are not measured."""


Op = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | CreateAny
    | Churn
    | DeletePods
    | UpdateAny
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
)


class Workload(_Part):
    """One size of a test case. `targets`: figures' bounds, as ratios to kube-scheduler's (see bench/README.md)."""

    name: str
    labels: Sequence[str] = ()
    params: dict[str, int] = {}
    targets: dict[str, float] | None = None


class TestCase(_Part):
    """What happens, and in which sizes.

    `nothing_to_decide`: any node will do, or the one of a pod's turn, so that who decides nothing takes part as well.
    """

    name: str
    workload_template: Sequence[Op]
    workloads: Sequence[Workload]
    description: str = ""
    nothing_to_decide: bool = False
    default_pod_template_path: str | None = None
    default_pod_template: Json | None = None
