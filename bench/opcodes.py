"""Vocabulary of workload files: that of kubernetes' scheduler_perf, as far as it is supported here.

An unknown field is an error and never ignored: a workload with ignored fields would measure something else.
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
    """Number of objects: a number, or the name of a workload's parameter with a $ before it."""

    count: int | None = None
    count_param: str | None = None


class LabelNodePrepareStrategy(_Part):
    """Label with these values, assigned to nodes round robin."""

    label_key: str
    label_values: Sequence[str]


class UniqueNodeLabelStrategy(_Part):
    """Label with the node's own name."""

    label_key: str


class CSINodeAllocatable(_Part):
    """Maximum of volumes of a driver on a node."""

    count: int


class NodeAllocatableStrategy(_Part):
    """Resources of nodes in addition to their template's, and limits of CSI drivers."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, CSINodeAllocatable] = msgspec.field(name="csiNodeAllocatable", default={})
    migrated_plugins: Sequence[str] = ()


class CreateNodes(Counted, tag="createNodes"):
    """Creates nodes without kubelets."""

    node_template_path: str | None = None
    node_template: Json | None = None
    node_allocatable_strategy: NodeAllocatableStrategy | None = None
    label_node_prepare_strategy: LabelNodePrepareStrategy | None = None
    unique_node_label_strategy: UniqueNodeLabelStrategy | None = None


class CreateNamespaces(Counted, tag="createNamespaces", kw_only=True):
    """Creates the namespaces PREFIX-0, PREFIX-1 …"""

    prefix: str
    namespace_template_path: str | None = None
    namespace_template: Json | None = None


class CreatePods(Counted, tag="createPods"):
    """Creates pods, by default in a namespace of their own. `skip_wait_to_completion`: not placed beforehand.

    `groups_param` names the parameter with the number of pod groups; the pods are members of them in turn. It is not in
    scheduler_perf.
    """

    namespace: str | None = None
    pod_template_path: str | None = None
    pod_template: Json | None = None
    persistent_volume_template_path: str | None = None
    persistent_volume_template: Json | None = None
    persistent_volume_claim_template_path: str | None = None
    persistent_volume_claim_template: Json | None = None
    collect_metrics: bool = False
    skip_wait_to_completion: bool = False
    groups_param: str | None = None


class CreatePodSets(Counted, tag="createPodSets", kw_only=True):
    """Creates equal pods in each of the namespaces PREFIX-0, PREFIX-1 …"""

    namespace_prefix: str
    create_pods_op: CreatePods


class CreateAny(Counted, tag="createAny"):
    """Creates objects of any kind; one unless a count is given."""

    namespace: str | None = None
    template_path: str | None = None
    template: Json | None = None


class Churn(_Op, tag="churn"):
    """Creates one object of each template per interval, until the measured pods are bound.

    `create`: at most `number` each (0: no limit). `recreate`: `number` names, each created and deleted in turn.
    """

    mode: Literal["create", "recreate"]
    number: int = 0
    interval_milliseconds: int = 500
    template_paths: Sequence[str] = ()
    templates: Sequence[Json] = ()
    namespace: str | None = None


class DeletePods(_Op, tag="deletePods"):
    """Deletes the namespace's pods, all at once or at a rate per second."""

    namespace: str
    label_selector: dict[str, str] = {}
    delete_pods_per_second: float = 0.0
    skip_wait_to_completion: bool = False


class UpdateAny(Counted, tag="updateAny"):
    """Merges the template into existing objects, all at once or at a rate per second."""

    namespace: str | None = None
    template_path: str | None = None
    template: Json | None = None
    update_per_second: float = 0.0


class Barrier(_Op, tag="barrier"):
    """Waits until the pods created so far are bound, or until each was attempted once."""

    stage_requirement: Literal["Scheduled", "Attempted"] = "Scheduled"
    namespaces: Sequence[str] = ()
    label_selector: dict[str, str] = {}


class Sleep(_Op, tag="sleep"):
    """Waits for a duration: "500ms", "2s"."""

    duration: str


class StartCollectingMetrics(_Op, tag="startCollectingMetrics"):
    """Measures pods created from here on in these namespaces (empty: all) with these labels."""

    name: str = ""
    namespaces: Sequence[str] = ()
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(_Op, tag="stopCollectingMetrics"):
    """Ends the measuring of newly created pods."""


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
    """One size of a test case. `targets`: bounds of figures, as ratios to kube-scheduler's (see bench/README.md).

    `threshold`: pods per second that scheduler_perf of Kubernetes 1.37 requires in its own environment.
    """

    name: str
    labels: Sequence[str] = ()
    params: dict[str, int] = {}
    targets: dict[str, float] | None = None
    threshold: int | None = None


class TestCase(_Part):
    """Operations and their sizes.

    `nothing_to_decide`: any node will do, or the next one in order, so that the bare clients can run it as well.
    """

    name: str
    workload_template: Sequence[Op]
    workloads: Sequence[Workload]
    description: str = ""
    nothing_to_decide: bool = False
    default_pod_template_path: str | None = None
    default_pod_template: Json | None = None
