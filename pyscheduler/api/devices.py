"""Objects of resource.k8s.io/v1, reduced to the fields that allocation of devices reads and writes.

Fields of features that kube-scheduler 1.37 has off by default are left out, except where their use changes a result.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pyscheduler.api.objects import ApiObject, NodeSelector, ObjectMeta, Quantity

RESOURCE_GROUP = "resource.k8s.io"
MAX_DEVICES_PER_CLAIM = 32
"""Most devices in the allocation of one claim (AllocationResultsMaxSize)."""
EXACT_COUNT = "ExactCount"
ALL = "All"


class DeviceAttribute(ApiObject, frozen=True):
    """Value of an attribute: one of the fields is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")


class CapacityRequestPolicyRange(ApiObject, frozen=True):
    """Valid amounts of a capacity: from min in steps up to max."""

    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(ApiObject, frozen=True):
    """Amounts of a capacity that a request may consume."""

    default: Quantity | None = None
    valid_values: tuple[Quantity, ...] | None = None
    valid_range: CapacityRequestPolicyRange | None = None


class DeviceCapacity(ApiObject, frozen=True):
    """Amount of something that a device has, such as memory."""

    value: Quantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class DeviceCounter(ApiObject, frozen=True):
    """Amount of something that partitions of a device share."""

    value: Quantity = "0"


class CounterSet(ApiObject, frozen=True):
    """Named counters of a pool."""

    name: str = ""
    counters: dict[str, DeviceCounter] | None = None


class DeviceCounterConsumption(ApiObject, frozen=True):
    """Amounts that a device consumes of a counter set while it is allocated."""

    counter_set: str = ""
    counters: dict[str, DeviceCounter] | None = None
    compatibility_groups: tuple[str, ...] | None = None


class DeviceTaint(ApiObject, frozen=True):
    """Taint of a device; the effects NoSchedule and NoExecute prevent allocation."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Device(ApiObject, frozen=True):
    """One device of a ResourceSlice."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: tuple[DeviceCounterConsumption, ...] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] | None = None
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiObject, frozen=True):
    """Pool of a slice, its generation, and the number of slices of that generation."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(ApiObject, frozen=True):
    """Devices or shared counters of one driver."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    devices: tuple[Device, ...] | None = None
    per_device_node_selection: bool | None = None
    shared_counters: tuple[CounterSet, ...] | None = None


class ResourceSlice(ApiObject, frozen=True):
    """resource.k8s.io/v1 ResourceSlice."""

    metadata: ObjectMeta
    spec: ResourceSliceSpec = ResourceSliceSpec()


class CelDeviceSelector(ApiObject, frozen=True):
    """CEL expression over `device`."""

    expression: str = ""


class DeviceSelector(ApiObject, frozen=True):
    """Condition that a device must satisfy; `cel` is unset in objects of later API versions."""

    cel: CelDeviceSelector | None = None


class DeviceToleration(ApiObject, frozen=True):
    """Toleration of taints of devices."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(ApiObject, frozen=True):
    """Amounts that a request consumes of the capacities of each device."""

    requests: dict[str, Quantity] | None = None


class ExactDeviceRequest(ApiObject, frozen=True):
    """Request for devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[Any, ...] | None = None


class DeviceSubRequest(ApiObject, frozen=True):
    """One alternative of a request with firstAvailable."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] | None = None
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] | None = None
    capacity: CapacityRequirements | None = None
    derived_attributes: tuple[Any, ...] | None = None


class DeviceRequest(ApiObject, frozen=True):
    """Request of a claim: `exactly`, or the first of several alternatives that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] | None = None


class DeviceConstraint(ApiObject, frozen=True):
    """Attribute that the devices of the listed requests share, or that differs between all of them."""

    requests: tuple[str, ...] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClassConfiguration(ApiObject, frozen=True):
    """Parameters of a driver, for all devices of a class."""

    opaque: dict[str, Any] | None = None


class DeviceClaimConfiguration(ApiObject, frozen=True):
    """Parameters of a driver, for the devices of the listed requests."""

    requests: tuple[str, ...] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(ApiObject, frozen=True):
    """Requests for devices that are allocated together."""

    requests: tuple[DeviceRequest, ...] | None = None
    constraints: tuple[DeviceConstraint, ...] | None = None
    config: tuple[DeviceClaimConfiguration, ...] | None = None


class ResourceClaimSpec(ApiObject, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiObject, frozen=True):
    """One allocated device."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] | None = None
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class DeviceAllocationConfiguration(ApiObject, frozen=True):
    """Parameters of a driver from the class or the claim; without requests for all of them."""

    source: str = ""
    requests: tuple[str, ...] | None = None
    opaque: dict[str, Any] | None = None


class DeviceAllocationResult(ApiObject, frozen=True):
    results: tuple[DeviceRequestAllocationResult, ...] | None = None
    config: tuple[DeviceAllocationConfiguration, ...] | None = None


class AllocationResult(ApiObject, frozen=True):
    """Devices of a claim, and the nodes on which they can be used; without a selector on all nodes."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiObject, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""


class ResourceClaimStatus(ApiObject, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] | None = None


class ResourceClaim(ApiObject, frozen=True):
    """resource.k8s.io/v1 ResourceClaim."""

    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class DeviceClassSpec(ApiObject, frozen=True):
    selectors: tuple[DeviceSelector, ...] | None = None
    config: tuple[DeviceClassConfiguration, ...] | None = None
    extended_resource_name: str | None = None


class DeviceClass(ApiObject, frozen=True):
    """resource.k8s.io/v1 DeviceClass."""

    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceTaintSelector(ApiObject, frozen=True):
    """Devices that a rule taints; an unset field matches all."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiObject, frozen=True):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(ApiObject, frozen=True):
    """resource.k8s.io/v1 DeviceTaintRule: a taint for devices of any slices."""

    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
