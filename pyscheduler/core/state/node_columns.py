"""Every column of the cluster state, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyscheduler.api.objects import ContainerImage, Taint
from pyscheduler.api.pod import HostPort
from pyscheduler.api.resources import CPU, MEMORY, PodRequests
from pyscheduler.core.state.columns import CategoricalColumn, IntColumn
from pyscheduler.core.state.node import NodeRow

_MANY = 256
"""From so many columns of a kind on, those that nobody needs are dropped: pods may name any resource and any label.
A power of two."""


@dataclass(frozen=True, slots=True)
class ImageSet:
    """The images that a node reports; `sizes` is in bytes by image name."""

    reported: tuple[ContainerImage, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)


class NodeColumns:
    """One place per node in each column; resources get a column when a node or pod has some, labels when asked for."""

    def __init__(self) -> None:
        self._allocatable: dict[str, IntColumn] = {}
        self._requested: dict[str, IntColumn] = {}
        self._non_zero: dict[str, IntColumn] = {CPU: IntColumn(), MEMORY: IntColumn()}
        self._nothing = IntColumn()
        """What is read of a resource that nobody has: zeros."""
        self._usual: tuple[IntColumn, ...] | None = None
        """The columns that nearly every pod asks for; None where one of them may have come or gone."""
        self.allowed_pods = IntColumn()
        self.pod_counts = IntColumn()
        self.unschedulable = IntColumn()
        self.taints: CategoricalColumn[tuple[Taint, ...]] = CategoricalColumn(())
        self.images: CategoricalColumn[ImageSet] = CategoricalColumn(ImageSet())
        self.ports: CategoricalColumn[frozenset[HostPort]] = CategoricalColumn(frozenset())
        self.labels: dict[str, CategoricalColumn[str | None]] = {}

    @property
    def resources(self) -> int:
        """How many columns there are for resources."""
        return len(self._allocatable) + len(self._requested) + len(self._non_zero)

    def allocatable(self, resource: str) -> IntColumn:
        """To be read only."""
        return self._allocatable.get(resource, self._nothing)

    def requested(self, resource: str) -> IntColumn:
        """To be read only."""
        return self._requested.get(resource, self._nothing)

    def non_zero_requested(self, resource: str) -> IntColumn:
        """To be read only."""
        return self._non_zero.get(resource) or self.requested(resource)

    def together(self, column: IntColumn) -> tuple[IntColumn, ...]:
        """The columns to be read with one: those that nearly every pod asks for, or it alone."""
        usual = self._usual
        if usual is None:
            named = (columns.get(r) for r in (CPU, MEMORY) for columns in (self._allocatable, self._requested))
            known = (numbers for numbers in named if numbers is not None)
            usual = self._usual = (self.pod_counts, self.allowed_pods, *self._non_zero.values(), *known)
        return usual if column in usual else (column,)

    def write_allocatable(self, row: int, amounts: Mapping[str, int]) -> None:
        """Set every resource of a row, those it no longer has to 0."""
        for resource in self._allocatable.keys() | amounts.keys():
            self._column(self._allocatable, resource).set(row, amounts.get(resource, 0))

    def write_requested(self, row: int, amounts: Mapping[str, int], non_zero: Mapping[str, int]) -> None:
        """Set every requested amount of a row."""
        for resource in self._requested.keys() | amounts.keys():
            self.set_requested(row, resource, amounts.get(resource, 0))
        for resource in self._non_zero:
            self.set_non_zero(row, resource, non_zero[resource])

    def set_requested(self, row: int, resource: str, amount: int) -> None:
        self._column(self._requested, resource).set(row, amount)

    def set_non_zero(self, row: int, resource: str, amount: int) -> None:
        self._non_zero[resource].set(row, amount)

    def follow(self, row: int, node: NodeRow, requests: PodRequests) -> None:
        """Bring a row up to date after a pod with these requests has come to the node or left it."""
        used, columns = node.requested, self._requested
        for resource in requests.effective:
            numbers = columns.get(resource) or self._column(columns, resource)
            numbers.set(row, used.get(resource, 0))
        used, columns = node.non_zero_requested, self._non_zero
        for resource in requests.non_zero:
            columns[resource].set(row, used[resource])
        self.pod_counts.set(row, len(node.pods))

    def new_label(self, key: str) -> CategoricalColumn[str | None]:
        """An empty column for a label; too many, and all are dropped, to be built again when asked for."""
        if len(self.labels) >= _MANY:
            self.labels.clear()
        column: CategoricalColumn[str | None] = CategoricalColumn(None)
        self.labels[key] = column
        return column

    def _column(self, columns: dict[str, IntColumn], resource: str) -> IntColumn:
        column = columns.get(resource)
        if column is None:
            self._usual = None
            if len(columns) >= _MANY and len(columns).bit_count() == 1:  # each time their number has doubled
                for name in [name for name, numbers in columns.items() if not numbers.is_needed]:
                    del columns[name]
            column = columns[resource] = IntColumn()
        return column
