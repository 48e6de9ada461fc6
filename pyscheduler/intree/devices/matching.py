"""Properties of the devices of one node that do not change during a search: selectors, nodes, amounts."""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.intree.devices.capacity import Amounts, consumed_by_request
from pyscheduler.intree.devices.errors import AllocationError
from pyscheduler.intree.devices.inventory import PoolDevice
from pyscheduler.intree.devices.pools import DevicePool
from pyscheduler.intree.devices.requests import Request
from pyscheduler.intree.devices.selectors import (
    ExpressionCompileError,
    ExpressionRuntimeError,
    Selectors,
    matches,
)
from pyscheduler.intree.devices.steps import Steps


class NodeDevices:
    """Devices of the usable pools of a node, numbered in the order in which the search tries them."""

    def __init__(
        self, name: str, labels: Mapping[str, str], pools: list[DevicePool], selectors: Selectors, steps: Steps
    ) -> None:
        self.name = name
        self.labels = labels
        self.pools = pools
        self.devices: list[PoolDevice] = []
        self.pool_of: list[DevicePool] = []
        """Pool of each device."""
        self.steps = steps
        """Steps of this allocation."""
        self._selectors = selectors
        for pool in pools:
            self.devices += pool.devices
            self.pool_of += [pool] * len(pool.devices)

    def is_selectable(self, request: Request, number: int) -> bool:
        """Return True if the device has the node and satisfies the selectors of the class and of the request.

        AllocationError if an expression fails: that is a mistake in the expression and not a property of the node.
        """
        result = request.selectable.get(number)
        if result is None:
            result = request.selectable[number] = self._is_selectable(request, self.devices[number])
        return result

    def _is_selectable(self, request: Request, device: PoolDevice) -> bool:
        self.steps.take(len(request.expressions))
        for place, expression in request.expressions:
            try:
                if not matches(self._selectors, expression, device.selected):
                    return False
            except ExpressionCompileError as error:
                raise AllocationError(f"{place}: CEL compile error: {error}") from None
            except ExpressionRuntimeError as error:
                raise AllocationError(f"{place} on device {device.id}: CEL runtime error: {error}") from None
        return device.nodes is None or device.nodes.matches(self.name, self.labels)

    def consumed(self, request: Request, number: int) -> Amounts | None:
        """Return the amounts that the request consumes of the device, None if the device cannot provide them.

        CapacityError if an amount is not representable.
        """
        try:
            return request.consumed[number]
        except KeyError:
            consumed = consumed_by_request(request.amounts, self.devices[number].capacities)
            return request.consumed.setdefault(number, consumed)
