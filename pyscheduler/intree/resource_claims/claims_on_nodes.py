"""Cached results of allocating the claims of a pod, by equivalence class of nodes.

The results are those of the allocator on one of the nodes. They hold for all pods with equal claims, as those of one
template have, until a DeviceClass changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import NodeInfo, NodeTable, Rejection
from pyscheduler.api.devices import ResourceClaim
from pyscheduler.intree.devices.equivalent_nodes import EquivalentNodes
from pyscheduler.intree.devices.inventory import Inventory
from pyscheduler.intree.resource_claims.claim_cache import DevicesInUse

_MAX_KEYS: Final = 256
"""Maximum number of distinct sets of claims with cached results."""


class NodeVerdict(NamedTuple):
    """Result of an allocation on a node."""

    rejection: Rejection | None
    score: int = 0


Evaluate = Callable[[NodeInfo], NodeVerdict]


class ClaimsOnNodes:
    """Verdicts by what claims request and by number of the node."""

    def __init__(self) -> None:
        self._nodes = EquivalentNodes()
        self._epoch = self._nodes.epoch
        self._classes_version = -1
        self._devices_version = 0
        self._verdicts: OrderedDict[Hashable, dict[int, NodeVerdict]] = OrderedDict()

    def refresh(self, inventory: Inventory, devices: DevicesInUse, classes_version: int, nodes: NodeTable) -> int:
        """Follow the devices and their use. Return a version that changes whenever the verdict of a node may."""
        self._nodes.refresh(inventory, devices.allocated, devices.changed_since(self._devices_version), nodes.all_nodes)
        self._devices_version = devices.version
        if self._epoch != self._nodes.epoch or self._classes_version != classes_version:
            self._verdicts.clear()
            self._epoch, self._classes_version = self._nodes.epoch, classes_version
        return self._nodes.version

    def groups(
        self, key: Hashable, nodes: NodeTable, chosen: NDArray[np.intp], evaluate: Evaluate
    ) -> Iterator[tuple[NodeVerdict, NDArray[np.intp]]]:
        """Yield each verdict with those of the `chosen` nodes of the table, by place, to which it applies.

        `key` is equal for equal claims. `evaluate` is called for one node of each number that has no verdict yet.
        """
        known = self._verdicts.setdefault(key, {})
        self._verdicts.move_to_end(key)
        if len(self._verdicts) > _MAX_KEYS:
            self._verdicts.popitem(last=False)
        if not len(chosen):
            return
        numbers = self._nodes.numbers(nodes)
        if len(chosen) == nodes.total:
            in_use = self._nodes.numbers_in_use()  # of many nodes, counting them again takes long
        else:
            numbers = numbers.take(chosen)
            in_use = np.flatnonzero(np.bincount(numbers)).tolist()
        verdicts: dict[NodeVerdict, int] = {}
        verdict_of = np.zeros(in_use[-1] + 1, np.intp)
        for number in in_use:
            verdict = known.get(number)
            if verdict is None:
                first = int((numbers == number).argmax())
                verdict = known[number] = evaluate(nodes[int(chosen[first])])
            verdict_of[number] = verdicts.setdefault(verdict, len(verdicts))
        if len(verdicts) == 1:
            yield next(iter(verdicts)), chosen
            return
        of = verdict_of.take(numbers)
        for verdict, index in verdicts.items():
            yield verdict, chosen[of == index]


def claims_key(claims: Sequence[ResourceClaim]) -> Hashable:
    """Return a key of what the claims request, without their names: pods may share claims of megabytes."""
    digest = blake2b()
    for claim in claims:
        spec = encoded(claim.spec)
        digest.update(len(spec).to_bytes(4) + spec)
    return digest.digest()


encoded: Final = msgspec.msgpack.Encoder(order="sorted").encode
"""Encodes an API object as a cache key."""
