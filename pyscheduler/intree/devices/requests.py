"""Requests of claims and their checks, in kube-scheduler's order: the first problem is the one that is reported."""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.api.devices import (
    ALL,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from pyscheduler.api.quantity import QuantityError
from pyscheduler.intree.devices.capacity import Amounts
from pyscheduler.intree.devices.errors import AllocationError
from pyscheduler.intree.devices.quantity import parse


class Request:
    """A request of a claim, or one alternative of it. Construction checks it; AllocationError if it is wrong."""

    __slots__ = (
        "admin_access",
        "all_devices",
        "amounts",
        "claim",
        "constraints",
        "consumed",
        "count",
        "device_class",
        "expressions",
        "mode",
        "name",
        "parent",
        "selectable",
        "tolerations",
    )

    def __init__(
        self,
        names: tuple[str, str, str],
        spec: ExactDeviceRequest | DeviceSubRequest,
        classes: Mapping[str, DeviceClass],
    ) -> None:
        self.claim, self.parent, self.name = names
        """Namespace and name of the claim, name of the request with alternatives or empty, own name."""
        self.device_class = self._checked_class(spec, classes)
        self.expressions = self._expressions(spec)
        """Expressions of the class, then of the request, each with its place for messages."""
        self.mode = spec.allocation_mode
        self.count = spec.count
        """Devices to allocate; for all devices it is set with them."""
        self.admin_access = isinstance(spec, ExactDeviceRequest) and bool(spec.admin_access)
        self.tolerations: tuple[DeviceToleration, ...] | None = spec.tolerations
        self.amounts = self._amounts(spec)
        """Amounts that it requests of the capacities of each device."""
        self.constraints: list[int] = []
        """Constraints of the claim that apply, by number."""
        self.all_devices: list[int] = []
        """Devices of a request for all of them, by number."""
        self.selectable: dict[int, bool] = {}
        """Results of the selectors by number of the device."""
        self.consumed: dict[int, Amounts | None] = {}
        """Amounts that the request consumes by number of the device; None if the device cannot provide them."""

    @property
    def takes_all(self) -> bool:
        """True if all matching devices are requested."""
        return self.mode == ALL

    @property
    def result_name(self) -> str:
        """Name in results: `request` or `request/alternative`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def place(self) -> str:
        """Prefix of messages."""
        return f"claim {self.claim}, request {self.name}"

    def is_listed(self, names: tuple[str, ...] | None) -> bool:
        """Return True if the names, as a constraint has them, include this request or its parent, or are empty."""
        return not names or (self.parent or self.name) in names or self.result_name in names

    def _checked_class(
        self, spec: ExactDeviceRequest | DeviceSubRequest, classes: Mapping[str, DeviceClass]
    ) -> DeviceClass:
        if spec.derived_attributes:
            problem = "cannot handle request with derived attributes, the feature is disabled"
            raise AllocationError(f"{self.place}: {problem}")
        for number, selector in enumerate(spec.selectors or ()):
            if selector.cel is None:
                problem = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{self.place}, selector #{number}: {problem}")
        name = spec.device_class_name
        if not name:
            raise AllocationError(f"{self.place}: missing device class name (unsupported request type?)")
        if name not in classes:
            problem = f'deviceclass.resource.k8s.io "{name}" not found'
            raise AllocationError(f"{self.place}: could not retrieve device class {name}: {problem}")
        return classes[name]

    def _expressions(self, spec: ExactDeviceRequest | DeviceSubRequest) -> list[tuple[str, str]]:
        expressions: list[tuple[str, str]] = []
        for place, selectors in (
            (f"class {self.device_class.metadata.name}", self.device_class.spec.selectors),
            (f"claim {self.claim}", spec.selectors),
        ):
            for number, selector in enumerate(selectors or ()):
                # An empty expression does not compile, so a class with an unknown type of selector is reported as well.
                expressions.append((f"{place}: selector #{number}", selector.cel.expression if selector.cel else ""))
        return expressions

    def _amounts(self, spec: ExactDeviceRequest | DeviceSubRequest) -> Amounts:
        requests = spec.capacity.requests if spec.capacity else None
        try:
            return {name: parse(amount) for name, amount in (requests or {}).items()}
        except QuantityError as error:
            raise AllocationError(f"{self.place}: capacity request: {error}") from None


def object_name(claim: ResourceClaim) -> str:
    """Return namespace and name as messages of Kubernetes have them."""
    metadata = claim.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def alternatives(request: DeviceRequest) -> list[tuple[str, str, ExactDeviceRequest | DeviceSubRequest]]:
    """Return parent, name and object of each alternative; of a request without any, of itself without a parent."""
    if request.first_available:
        return [(request.name, each.name, each) for each in request.first_available]
    # Without `exactly` it is of a later API version; the missing class is then reported.
    return [("", request.name, request.exactly or ExactDeviceRequest())]
