"""Allocator of devices: claims, classes, devices and one node in, allocation results out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyscheduler.api.devices import AllocationResult, DeviceClass, ResourceClaim
from pyscheduler.intree.devices.allocated import AllocatedDevices
from pyscheduler.intree.devices.chosen import ChosenDevices
from pyscheduler.intree.devices.errors import NodeAllocationError
from pyscheduler.intree.devices.inventory import Inventory
from pyscheduler.intree.devices.matching import NodeDevices
from pyscheduler.intree.devices.pools import gather_pools
from pyscheduler.intree.devices.results import allocation_result
from pyscheduler.intree.devices.search import Search
from pyscheduler.intree.devices.selectors import Selectors
from pyscheduler.intree.devices.steps import Steps
from pyscheduler.intree.devices.validation import CheckedClaim

DEFAULT_STEPS = 200_000
"""Steps of the search on one node: kube-scheduler has 10 s of wall-clock time."""


class Allocator:
    """Allocator for one state of the cluster, used for all nodes that are tried for a pod."""

    def __init__(
        self,
        inventory: Inventory,
        classes: Mapping[str, DeviceClass],
        allocated: AllocatedDevices,
        selectors: Selectors,
        new_share_id: Callable[[], str],
        steps: int = DEFAULT_STEPS,
    ) -> None:
        """`steps` is the limit for all nodes together."""
        self._steps = steps
        self._inventory = inventory
        self._classes = classes
        self._allocated = allocated
        self._selectors = selectors
        self._new_share_id = new_share_id

    def allocate(
        self,
        node_name: str,
        labels: Mapping[str, str],
        claims: Sequence[ResourceClaim],
        *,
        steps: int = DEFAULT_STEPS,
        prunes: bool = True,
    ) -> list[AllocationResult] | None:
        """Return a result for each claim, or None if the node cannot provide the devices of all.

        NodeAllocationError gives the reason why this node cannot. AllocationError is a mistake in an object, which
        other nodes have as well, AllocationTimeoutError the end of the allowed steps. Without `prunes` hopeless
        branches are searched as well; that is for tests.
        """
        pools = gather_pools(self._inventory, node_name, labels)
        node = NodeDevices(node_name, labels, pools, self._selectors, Steps(steps, self._steps))
        try:
            checked = [CheckedClaim(claim, self._classes, node) for claim in claims]
            chosen = ChosenDevices(node, self._allocated, [list(c.constraints) for c in checked], self._new_share_id)
            search = Search([claim.requests for claim in checked], chosen, prunes)
            is_found = search.run()
        finally:
            self._steps -= node.steps.used
        if not is_found:
            if any(pool.invalid_reason for pool in pools):
                raise NodeAllocationError("invalid resource pools were encountered")
            return None
        results = []
        for index, claim in enumerate(checked):
            used = [each[search.alternative.get((index, n), 0)] for n, each in enumerate(claim.requests)]
            results.append(allocation_result(claim, used, chosen.results[index], node_name))
        return results
