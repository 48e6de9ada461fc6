"""Kubernetes API objects, reduced to the fields that scheduling reads.

List and watch responses are decoded directly into these structs; other fields are skipped. All structs are frozen, and
exempt from garbage collection because they cannot form cycles. Field names are the API's in snake case.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

Quantity = str | int | float
"""Resource quantity as it appears in JSON."""


class ApiObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False, dict=False):
    """Base of every decoded API object."""


class OwnerReference(ApiObject, frozen=True):
    """metav1 OwnerReference."""

    kind: str
    name: str
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class ObjectMeta(ApiObject, frozen=True):
    """metav1 ObjectMeta."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class LabelSelectorRequirement(ApiObject, frozen=True):
    """metav1 LabelSelectorRequirement; also core/v1 NodeSelectorRequirement."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(ApiObject, frozen=True):
    """metav1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelectorTerm(ApiObject, frozen=True):
    """core/v1 NodeSelectorTerm."""

    match_expressions: tuple[LabelSelectorRequirement, ...] | None = None
    match_fields: tuple[LabelSelectorRequirement, ...] | None = None


class NodeSelector(ApiObject, frozen=True):
    """core/v1 NodeSelector."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredSchedulingTerm(ApiObject, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiObject, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] | None = None


class PodAffinityTerm(ApiObject, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedPodAffinityTerm(ApiObject, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiObject, frozen=True):
    """podAffinity or podAntiAffinity."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] | None = None


class Affinity(ApiObject, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(ApiObject, frozen=True):
    """core/v1 Toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Taint(ApiObject, frozen=True):
    """core/v1 Taint."""

    key: str
    effect: str
    value: str = ""


class TopologySpreadConstraint(ApiObject, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class ResourceRequirements(ApiObject, frozen=True):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class ContainerPort(ApiObject, frozen=True):
    container_port: int = 0
    host_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class ContainerRestartRule(ApiObject, frozen=True):
    """Rule for the exit of a container (KEP-5307); scheduling reads the action only."""

    action: str = ""


class VolumeMount(ApiObject, frozen=True):
    """Mount of a volume; scheduling reads the options only."""

    bind_mount_options: tuple[str, ...] | None = None


class Container(ApiObject, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None


class PodSchedulingGate(ApiObject, frozen=True):
    name: str


class PodResourceClaim(ApiObject, frozen=True):
    """Reference of a pod to an existing ResourceClaim or to a ResourceClaimTemplate."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(ApiObject, frozen=True):
    """Reference of a pod to its PodGroup (scheduling.k8s.io, KEP-4671)."""

    pod_group_name: str | None = None


class Volume(TypedDict, total=False):
    """Volume of a pod as in the API's JSON. Volume types that scheduling does not read are skipped."""

    name: Any
    persistentVolumeClaim: Any
    ephemeral: Any
    csi: Any
    gcePersistentDisk: Any
    awsElasticBlockStore: Any
    azureDisk: Any
    azureFile: Any
    cinder: Any
    portworxVolume: Any
    vsphereVolume: Any
    iscsi: Any
    rbd: Any
    image: Any


class PodSpec(ApiObject, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] | None = None
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    preemption_policy: str | None = None
    priority_class_name: str = ""
    active_deadline_seconds: int | None = None
    host_network: bool = False
    host_users: bool | None = None
    overhead: dict[str, Quantity] | None = None
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] | None = None
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: tuple[Volume, ...] | None = None


class PodCondition(ApiObject, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class ContainerStatus(ApiObject, frozen=True):
    """Container status, reduced to the resources that the kubelet has allocated and actuated."""

    name: str
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] | None = None


class PodResourceClaimStatus(ApiObject, frozen=True):
    """Claim that was created for an entry of spec.resourceClaims; without a name, none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(ApiObject, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, Quantity] | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] | None = None


class PodObject(ApiObject, frozen=True):
    """core/v1 Pod."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class NodePodPreemptionPolicy(ApiObject, frozen=True):
    """Preemption on one node; needs the feature gate InPlacePodVerticalScalingSchedulerPreemption of the API server."""

    disable_resize_preemption: tuple[str, ...] | None = None
    """Owners that have disabled preemption for in-place resizes on the node."""


class NodeSpec(ApiObject, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None
    pod_preemption_policy: NodePodPreemptionPolicy | None = None


class ContainerImage(ApiObject, frozen=True, gc=True, weakref=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeCondition(ApiObject, frozen=True):
    type: str
    status: str


class NodeStatus(ApiObject, frozen=True):
    allocatable: dict[str, Quantity] | None = None
    images: tuple[ContainerImage, ...] | None = None
    conditions: tuple[NodeCondition, ...] | None = None
    declared_features: tuple[str, ...] | None = None


class NodeObject(ApiObject, frozen=True):
    """core/v1 Node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
