"""What CSINodes state about the drivers on their nodes: which are installed, and how many volumes they can attach."""

from __future__ import annotations

from collections.abc import Mapping, Set

from pyscheduler.api import Handle
from pyscheduler.intree._object_index import ObjectIndex
from pyscheduler.intree.volumes.objects import CSI_NODE, Object, field, items, text

_MAX_LIMIT = (1 << 31) - 1
"""Largest `allocatable.count` of a CSINode, an int32; larger ones, which no API server admits, mean the same."""


def limits_of(csi_node: Object | None) -> dict[str, int]:
    """Return the number of volumes that each driver can attach to the node, without drivers that have no limit."""
    return {
        text(driver, "name"): max(0, min(count, _MAX_LIMIT))
        for driver in items(csi_node, "spec", "drivers")
        if isinstance(count := field(driver, "allocatable", "count"), int)
    }


def drivers_of(csi_node: Object | None) -> Set[str]:
    """Return the names of the drivers that are installed on the node; none without a CSINode."""
    return {text(driver, "name") for driver in items(csi_node, "spec", "drivers")}


def must_be_installed(csi_driver: Object | None) -> bool:
    """Return True if pods with volumes of the driver may only run on nodes that have it."""
    return field(csi_driver, "spec", "preventPodSchedulingIfMissing") is True


class InstalledDrivers:
    """Nodes by the drivers that are installed on them."""

    def __init__(self, handle: Handle) -> None:
        csi_nodes = handle.objects[CSI_NODE]
        self._by_driver: ObjectIndex[Set[str]] = ObjectIndex(
            handle, CSI_NODE, lambda key: drivers_of(csi_nodes[key]) if key in csi_nodes else None, lambda found: found
        )
        self._nodes: dict[str, frozenset[str]] = {}
        self._version = -1

    def nodes_with(self, driver: str) -> frozenset[str]:
        """Return the names of the nodes that have the driver."""
        if self._version != self._by_driver.version:
            self._version = self._by_driver.version
            self._nodes.clear()
        if driver not in self._nodes:
            self._nodes[driver] = frozenset(name for _, name in self._by_driver.by_value(driver))
        return self._nodes[driver]


class VolumeLimits:
    """Limits of all drivers, from the CSINodes."""

    def __init__(self, handle: Handle) -> None:
        csi_nodes = handle.objects[CSI_NODE]
        self._by_driver = ObjectIndex(
            handle, CSI_NODE, lambda key: limits_of(csi_nodes[key]) if key in csi_nodes else None, dict.keys
        )
        self._least: dict[str, int | None] = {}
        self._version = -1

    @property
    def any(self) -> bool:
        """Return True if a driver has a limit on some node."""
        return bool(self._by_driver.values)

    @property
    def by_node(self) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Limits by driver of each CSINode, by its key."""
        return self._by_driver.parsed

    @property
    def version(self) -> int:
        """Number that changes with any CSINode."""
        return self._by_driver.version

    def of_driver(self, driver: str) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """Limits of the nodes where the driver has one, by key of the CSINode."""
        return self._by_driver.by_value(driver)

    def least(self, driver: str) -> int | None:
        """Return the driver's lowest limit; None if it has no limits."""
        if self._version != self._by_driver.version:
            self._version = self._by_driver.version
            self._least.clear()
        if driver not in self._least:
            limits = self._by_driver.by_value(driver).values()
            self._least[driver] = min((each[driver] for each in limits), default=None)
        return self._least[driver]
