"""Read-only view of some rows of the columns, for the NumPy form of a plugin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.match import Requirement
from pyscheduler.api.nodes import Ints, Mask, NodeInfo, NodeTable
from pyscheduler.api.objects import Taint
from pyscheduler.api.pod import HostPort
from pyscheduler.api.topology import AttributeCounts, Domains, DomainSums, PodAttributes, PodCount
from pyscheduler.core.state.columns import CategoricalColumn, IntColumn, Rows
from pyscheduler.core.state.image_rows import ImageRows
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import ChangeLog, NodeColumns
from pyscheduler.core.state.placed import PlacedPods
from pyscheduler.kernels import gather

_MAX_COLUMNS = 64
"""Maximum number of columns that a table caches: more than any set of plugins reads for one pod."""


class ColumnSource(Protocol):
    """The part of the cluster state that tables read."""

    rows: list[NodeRow]
    columns: NodeColumns
    placed: PlacedPods
    usage_log: ChangeLog
    nodes_version: int

    def __len__(self) -> int: ...

    def info(self, name: str) -> NodeRow | None: ...

    def table(self) -> NodeTable: ...

    def topology(self, key: str) -> Domains: ...

    def label_column(self, key: str) -> CategoricalColumn[str | None]: ...

    def known_label(self, key: str) -> str: ...

    @property
    def label_keys(self) -> Collection[str]: ...

    @property
    def image_nodes(self) -> Mapping[str, int]: ...

    @property
    def image_rows(self) -> ImageRows: ...

    @property
    def image_sizes(self) -> Mapping[str, int]: ...

    @property
    def image_names_version(self) -> int: ...


class ClusterTable(NodeTable):
    """The part of a node table that concerns the whole cluster."""

    __slots__ = ("_state",)

    def __init__(self, state: ColumnSource) -> None:
        self._state = state

    @property
    def total(self) -> int:
        return len(self._state.rows)

    @property
    def all_nodes(self) -> NodeTable:
        return self._state.table()

    @property
    def version(self) -> int:
        return self._state.nodes_version

    @property
    def label_keys(self) -> Collection[str]:
        return self._state.label_keys

    def nodes_with_image(self, image: str) -> int:
        return self._state.image_nodes[image]

    @property
    def image_names_version(self) -> int:
        return self._state.image_names_version

    def image_size(self, image: str) -> int:
        return self._state.image_sizes.get(image, 0)

    def count_by_domain(self, count: PodCount, domains: Domains) -> DomainSums:
        return self._state.placed.count_by_domain(count, domains)

    def attribute_counts(self, facet: PodAttributes) -> AttributeCounts:
        return self._state.placed.attribute_counts(facet)


class ColumnTable(ClusterTable):
    """Node table of all rows (a slice, so that columns are not copied) or of an index array."""

    __slots__ = ("_n", "_read", "_rows", "_topologies", "_usage_mark", "nodes_version")

    def __init__(self, state: ColumnSource, rows: NDArray[np.intp] | None = None) -> None:
        super().__init__(state)
        self._rows: Rows = slice(0, len(state)) if rows is None else rows
        self._n = len(state.rows) if rows is None else len(rows)
        self._read: dict[IntColumn, Ints] = {}
        """Cached columns, valid until a pod is added or removed."""
        self._topologies: dict[str, Domains] = {}
        self.nodes_version = state.nodes_version
        """Version of the cluster's nodes when the table was created."""
        self._usage_mark = state.usage_log.mark

    def is_current_for(self, rows: NDArray[np.intp]) -> bool:
        """Return True if this table has the same rows object and no node has changed; then it is also updated."""
        if rows is not self._rows or self.nodes_version != self._state.nodes_version:
            return False
        if self._usage_mark != self._state.usage_log.mark:
            self._usage_mark = self._state.usage_log.mark
            self._read.clear()
        return True

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[NodeInfo]:
        rows = self._state.rows
        return iter(rows) if isinstance(self._rows, slice) else (rows[i] for i in self._rows)

    def __getitem__(self, i: int) -> NodeInfo:
        return self._node(i)

    def _node(self, i: int) -> NodeRow:
        """Return node `i` with all its pods."""
        return self._state.rows[i if isinstance(self._rows, slice) else self._rows[i]]

    @property
    def names(self) -> Sequence[str]:
        return [node.name for node in self]

    @property
    def positions(self) -> NDArray[np.intp] | slice:
        return self._rows

    @property
    def generations(self) -> Ints:
        return self._state.columns.generations.read(self._rows, self.total)

    def allocatable(self, resource: str) -> Ints:
        columns = self._state.columns
        column = columns.allocatable.get(resource, columns.no_amounts)
        return self._read[column] if column in self._read else self._numbers(column)

    def requested(self, resource: str) -> Ints:
        columns = self._state.columns
        column = columns.requested.get(resource, columns.no_amounts)
        return self._read[column] if column in self._read else self._numbers(column)

    def non_zero_requested(self, resource: str) -> Ints:
        column = self._state.columns.non_zero_requested.get(resource)
        if column is None:
            return self.requested(resource)
        return self._read[column] if column in self._read else self._numbers(column)

    @property
    def allowed_pods(self) -> Ints:
        return self._numbers(self._state.columns.allowed_pods)

    @property
    def pod_counts(self) -> Ints:
        return self._numbers(self._state.columns.pod_counts)

    def _numbers(self, column: IntColumn) -> Ints:
        read = self._read.get(column)
        if read is None:
            if len(self._read) >= _MAX_COLUMNS:
                self._read.clear()  # pods may name any resource, and dropped columns must be freed
            if isinstance(self._rows, slice):
                read = self._read[column] = column.read(self._rows, len(self._state.rows))
            else:
                self._read_rows(self._rows, self._state.columns.together(column))
                read = self._read[column]
        return read

    def _read_rows(self, rows: NDArray[np.intp], columns: Sequence[IntColumn]) -> None:
        """Read several columns at once, which costs little more than one of them."""
        count, n, total = len(columns), rows.size, len(self._state.rows)
        buffer = np.empty(count * n, np.int64)
        gather(buffer, tuple([column.grown_to(total) for column in columns]), rows)
        buffer.setflags(write=False)  # a plugin that computes in place would corrupt what others read
        self._read.update(zip(columns, buffer.reshape(count, n), strict=True))

    @property
    def unschedulable(self) -> Mask:
        return np.not_equal(self._numbers(self._state.columns.unschedulable), 0)

    def named(self, names: frozenset[str]) -> Mask:
        wanted = [node.row for name in names if (node := self._state.info(name)) is not None]
        mask = np.zeros(self.total, np.bool_)
        mask[wanted] = True
        return mask[self._rows]

    def matches_requirement(self, requirement: Requirement) -> Mask:
        column = self._state.label_column(requirement.key)
        match requirement.operator:
            case "In":
                return column.among(requirement.values, self._rows, self.total)
            case "NotIn":
                return ~column.among(requirement.values, self._rows, self.total)
            case "Exists":
                return ~column.among((None,), self._rows, self.total)
            case "DoesNotExist":
                return column.among((None,), self._rows, self.total)
        return np.not_equal(column.gather(requirement.matches, self._rows, self.total), 0)

    @property
    def all_nodes(self) -> NodeTable:
        return self if isinstance(self._rows, slice) else super().all_nodes

    def topology(self, key: str) -> Domains:
        whole = self._state.topology(key)
        if isinstance(self._rows, slice):
            return whole
        key = self._state.known_label(key)
        domains = self._topologies.get(key)
        if domains is None or domains.known is not whole.known:
            domains = self._topologies[key] = whole.of_nodes(self._rows)
        return domains

    def count_pods(self, count: PodCount) -> Ints:
        cells = self._state.placed.count(count, self.total)
        return cells if isinstance(self._rows, slice) else cells.take(self._rows)

    def by_taints(self, answer: Callable[[tuple[Taint, ...]], int]) -> Ints:
        return self._state.columns.taints.gather(answer, self._rows, self.total)

    def has_image(self, image: str) -> Mask:
        mask = np.zeros(self.total, np.bool_)
        mask[self._state.image_rows.of(image)] = True
        return mask[self._rows]

    def by_ports(self, answer: Callable[[frozenset[HostPort]], int]) -> Ints:
        return self._state.columns.ports.gather(answer, self._rows, self.total)
