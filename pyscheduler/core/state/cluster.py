"""Cluster state: nodes in rows, pods on nodes, and an undo log for dry runs.

Rows are compact: removing a node moves the last one into its row. Every change of a row is recorded in one of two
change logs, one for node objects and one for the pods on nodes, by which caches are updated incrementally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.events import ResourceKind
from pyscheduler.api.objects import NodeObject
from pyscheduler.api.pod import Pod
from pyscheduler.api.reads import NodeFields
from pyscheduler.api.topology import Domains
from pyscheduler.core.state.columns import CategoricalColumn
from pyscheduler.core.state.image_rows import ImageRows
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import ChangeLog, NodeColumns
from pyscheduler.core.state.node_order import NodeOrder
from pyscheduler.core.state.placed import PlacedPods
from pyscheduler.core.state.shared_node_fields import (
    ALLOCATABLE,
    ANY_CHANGE,
    EXISTENCE,
    LABELS,
    NO_IMAGES,
    NO_NODE,
    SPEC,
    SharedNodeFields,
    changed_fields,
)
from pyscheduler.core.state.table import ColumnTable
from pyscheduler.core.state.topologies import Topologies
from pyscheduler.core.state.without_lower_priority import TableWithoutLowerPriority

_versions = count()
DEFAULT_TOPOLOGY_KEYS: Final = ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
"""Keys of the default topology spread constraints, which apply to nearly every pod: their columns always exist."""
RollBack = Callable[[int], bool]
"""Function that undoes up to a number of changes of a dry run, and returns True if some are left."""


class ClusterState:
    """Nodes and placed pods. All changes go through its methods; `info` and `table` are for reading."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        for key in DEFAULT_TOPOLOGY_KEYS:
            self.columns.new_label(key)
        self.rows: list[NodeRow] = []
        self.order = NodeOrder()
        self.node_log = ChangeLog()
        """Rows with changed node objects."""
        self.usage_log = ChangeLog()
        """Rows with changed pods."""
        self.nodes_version = next(_versions)
        """Version of the node objects, which changes with any of them; unique across clusters in this process."""
        self._field_versions = dict.fromkeys((*(field.value for field in NodeFields), EXISTENCE), self.nodes_version)
        """Version of the last change by part of the node objects, as values of NodeFields, and by `EXISTENCE`."""
        self.image_nodes: Counter[str] = Counter()
        """Number of nodes that report an image, by image name."""
        self.image_rows = ImageRows(self.rows, self.node_log)
        self.image_names_version = 0
        """Incremented when `image_nodes` gets another key or loses one."""
        self.image_sizes: dict[str, int] = {}
        """Image sizes in bytes as reported by the first of those nodes (kube-scheduler's image states)."""
        self.objects_version = 0
        """Version that changes with any object of a kind that plugins watch."""
        self.object_versions: dict[ResourceKind, int] = {}
        """Version of the last change by kind."""
        self.placed = PlacedPods()
        """Pods on existing nodes by signature, with the counts that plugins read."""
        self._shared_fields = SharedNodeFields()
        self._topologies = Topologies()
        self._label_keys: Counter[str] = Counter()
        """Number of nodes by label key."""
        self._no_label: CategoricalColumn[str | None] = CategoricalColumn(None)
        """Column of all labels that no node has: pods may select any number of those."""
        self._by_name: dict[str, NodeRow] = {}
        self._missing_nodes: dict[str, NodeRow] = {}
        self._node_of: dict[str, NodeRow] = {}
        self._undo: list[tuple[Pod, str, list[str] | None]] = []
        self._dry_runs = 0
        self._whole_table: ColumnTable | None = None
        self._last_table: ColumnTable | None = None
        """Cached, since successive plugins read the same columns of the same rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def info(self, name: str) -> NodeRow | None:
        """Return the node of that name, or None."""
        return self._by_name.get(name)

    def node_order_rows(self) -> NDArray[np.intp]:
        """Return all rows in the order of kube-scheduler's node tree."""
        return self.order.rows(self._by_name)

    def table(self, rows: NDArray[np.intp] | None = None) -> ColumnTable:
        """Return the node table of all nodes, or of some rows."""
        if rows is None:
            whole = self._whole_table
            if whole is None or whole.nodes_version != self.nodes_version:
                whole = self._whole_table = ColumnTable(self)
            return whole
        last = self._last_table
        if last is None or not last.is_current_for(rows):
            last = self._last_table = ColumnTable(self, rows)
        return last

    def table_without_lower_priority(self, priority: int) -> TableWithoutLowerPriority:
        """Return the node table of all nodes without their pods below `priority`."""
        return TableWithoutLowerPriority(self, priority)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def set_node(self, source: NodeObject) -> NodeObject | None:
        """Add or update a node and return its old object; QuantityError, with nothing changed, if it is invalid."""
        name = source.metadata.name
        node = self._by_name.get(name)
        before = node.node if node else None
        old_images = node.image_set if node else NO_IMAGES
        source, images = self._shared_fields.intern_fields(source, before or NO_NODE, old_images)
        changed = ANY_CHANGE if before is None else changed_fields(before, source)
        if node is not None and not changed:
            node.node = source
            return before
        if node is None:
            node = self._missing_nodes.get(name) or NodeRow(name)
        labels: Mapping[str, str] = node.labels if before else {}
        node.describe(source, images)
        self._missing_nodes.pop(name, None)
        if before is None:
            node.row = len(self.rows)
            self.rows.append(node)
            self._by_name[name] = node
        if images is not old_images:
            self._count_images(old_images.sizes, images.sizes)
        if changed & LABELS:
            self._count_labels(labels, -1)
            self._count_labels(node.labels, 1)
            self.order.put(name, node.labels)
        if before is None:
            self._write_usage(node)
        elif changed & LABELS:
            self._topologies.drop_changed(labels, node.labels)
        self._write_object(node, changed)
        if before is None:
            self._topologies.add_last_node(len(self.rows))
            for pod in node.pods.values():
                self.placed.changed(node, pod, 1)
        return before

    def remove_node(self, name: str) -> NodeObject | None:
        """Remove a node, and keep its pods in case it returns. Returns the removed object, None if unknown."""
        node = self._by_name.pop(name, None)
        if node is None:
            return None
        for pod in node.pods.values():
            self.placed.changed(node, pod, -1)
        self.order.remove(name)
        domains = self._topologies.topologies_with_domain(node.row)
        last = self.rows.pop()
        if last is not node:
            self.placed.moved(last, node.row)
            last.row = node.row
            self.rows[node.row] = last
            self._write_usage(last)
            self._write_object(last, ANY_CHANGE)
        self._topologies.removed(domains, len(self.rows))
        # The last row no longer exists, but readers of all nodes must see the change.
        self._record_node_change(len(self.rows), ANY_CHANGE)
        node.row = -1
        self._count_images(node.images, {})
        self._count_labels(node.labels, -1)
        if node.pods:
            self._missing_nodes[name] = node
        return node.node

    def label_column(self, key: str) -> CategoricalColumn[str | None]:
        """Return the values of one label by row, None for nodes without it; built on first use."""
        if key not in self._label_keys:
            return self._no_label
        column = self.columns.labels.get(key)
        if column is None:
            column = self.columns.new_label(key)
            column.fill([node.labels.get(key) for node in self.rows])
        return column

    @property
    def label_keys(self) -> Collection[str]:
        """Keys of all node labels, as a live view."""
        return self._label_keys.keys()

    def known_label(self, key: str) -> str:
        """Return the key itself, or "" if no node has such a label."""
        return key if key in self._label_keys else ""

    def topology(self, key: str) -> Domains:
        """Return the domains of all nodes by the values of one label; the same object until one of these changes."""
        column = self.columns.labels.get(key)
        if column is None or key not in self._label_keys:
            key = self.known_label(key)
            column = self.label_column(key)
        return self._topologies.of(key, column, len(self.rows))

    def _count_images(self, before: Mapping[str, int], images: Mapping[str, int]) -> None:
        """Count the images of a node instead of those that it reported before."""
        gone = set()
        for image in before:
            self.image_nodes[image] -= 1
            if not self.image_nodes[image]:
                del self.image_nodes[image], self.image_sizes[image]
                gone.add(image)
        added = {image for image in images if image not in self.image_nodes}
        for image, size in images.items():
            self.image_nodes[image] += 1
            self.image_sizes.setdefault(image, size)
        self.image_names_version += gone != added

    def _count_labels(self, labels: Iterable[str], sign: int) -> None:
        for key in labels:
            self._label_keys[key] += sign
            if not self._label_keys[key]:
                del self._label_keys[key]

    def _write_usage(self, node: NodeRow) -> None:
        """Update the columns of the pods on a node."""
        columns, row = self.columns, node.row
        columns.write_requested(row, node.requested, node.non_zero_requested)
        columns.pod_counts.set(row, len(node.pods))
        columns.ports.set(row, node.used_ports)

    def changed_node_fields(self, since: int) -> int:
        """Return what has changed of any node since a version of the nodes: values of NodeFields, and `EXISTENCE`."""
        return sum(field for field, version in self._field_versions.items() if version > since)

    def _write_object(self, node: NodeRow, changed: int) -> None:
        """Update the columns of a node object, and record its change."""
        columns, row = self.columns, node.row
        columns.generations.set(row, node.generation)
        if changed & ALLOCATABLE:
            columns.write_allocatable(row, node.allocatable)
            columns.allowed_pods.set(row, node.allowed_pods)
        if changed & SPEC:
            columns.unschedulable.set(row, node.unschedulable)
            columns.taints.set(row, node.taints)
        if changed & LABELS:
            for key, column in columns.labels.items():
                column.set(row, node.labels.get(key))
        self._record_node_change(row, changed)

    def _record_node_change(self, row: int, changed: int) -> None:
        self.node_log.append(row)
        self.nodes_version = next(_versions)
        for field in self._field_versions:
            if changed & field:
                self._field_versions[field] = self.nodes_version

    # -- pods ----------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, node_name: str) -> None:
        """Add a pod to a node, which need not exist yet. A pod that is already placed is moved."""
        if pod.uid in self._node_of:
            self.remove(pod.uid)
        node = self._by_name.get(node_name) or self._missing_nodes.setdefault(node_name, NodeRow(node_name))
        node.put(pod)
        self._node_of[pod.uid] = node
        self._update_usage(node, pod, 1)
        if self._dry_runs:
            self._undo.append((pod, node_name, None))

    def remove(self, uid: str) -> Pod | None:
        """Remove a pod from its node and return it; None if it is on none."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return None
        if self._dry_runs:
            uids = list(node.pods)
            self._undo.append((node.pods[uid], node.name, uids[uids.index(uid) + 1 :]))
        pod = node.take(uid)
        self._update_usage(node, pod, -1)
        if node.row < 0 and not node.pods:
            self._missing_nodes.pop(node.name, None)
        return pod

    def replace(self, pod: Pod) -> None:
        """Replace a placed pod by its new version on the same node."""
        node = self._node_of[pod.uid]
        old = node.pods[pod.uid]
        if self._dry_runs or old.signature is not pod.signature:
            self.place(pod, node.name)
            return
        node.replace(pod)
        if node.row >= 0:
            self.columns.generations.set(node.row, node.generation)
        if pod.deleting != old.deleting and node.row >= 0:
            self.usage_log.append(node.row)  # some counts exclude terminating pods
            self.placed.changed(node, old, -1)
            self.placed.changed(node, pod, 1)

    def object_changed(self, kind: ResourceKind) -> None:
        """Record a change of an object other than nodes and pods, such as a Service, on which counts may depend."""
        self.objects_version += 1
        self.object_versions[kind] = self.objects_version
        self.usage_log.append(len(self.rows))  # not the row of any node

    def node_of(self, uid: str) -> NodeRow | None:
        """Return the node that a pod is on, even if it does not exist, or None."""
        return self._node_of.get(uid)

    def add_pod(self, pod: Pod) -> None:
        """Place a pod on the node of its spec.nodeName."""
        self.place(pod, pod.node_name)

    def _update_usage(self, node: NodeRow, pod: Pod, sign: int) -> None:
        """Update columns and counts for a pod that was added (1) or removed (-1)."""
        row = node.row
        if row < 0:
            return
        signature = pod.signature
        self.columns.update_requested(row, node, signature.requests)
        if signature.host_ports:
            self.columns.ports.set(row, node.used_ports)
        self.placed.changed(node, pod, sign)
        self.usage_log.append(row)

    # -- dry runs ------------------------------------------------------------------------------------------------

    @contextmanager
    def dry_run(self) -> Iterator[RollBack]:
        """Undo all placements and removals at the end of the block, newest first. Dry runs may be nested.

        The context manager returns a function that undoes the changes of the block in steps, before its end.
        """
        begin = len(self._undo)
        self._dry_runs += 1
        try:
            yield partial(self._roll_back, begin)
        finally:
            self._dry_runs -= 1
            self._roll_back(begin, len(self._undo))

    @property
    def is_dry_run(self) -> bool:
        """True within a dry run: an attempt may pause in one."""
        return self._dry_runs > 0

    def _roll_back(self, begin: int, most: int) -> bool:
        """Undo the newest placements and removals since `begin`, up to `most`. Return True if some are left."""
        for _ in range(min(most, len(self._undo) - begin)):
            self._revert(*self._undo.pop())
        return len(self._undo) > begin

    def _revert(self, pod: Pod, node_name: str, later: list[str] | None) -> None:
        """Undo a removal, `later` being the UIDs of the pods after this one on its node; None: undo a placement."""
        # The changes are removed from the undo log already: an outer dry run must not record their reversal.
        dry_runs, self._dry_runs = self._dry_runs, 0
        try:
            if later is None:
                self.remove(pod.uid)
                return
            self.place(pod, node_name)
            pods = self._node_of[pod.uid].pods
            for uid in later:
                pods[uid] = pods.pop(uid)
        finally:
            self._dry_runs = dry_runs
