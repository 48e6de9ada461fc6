"""The cluster as the scheduler knows it: nodes in rows, pods on them, and an undo log for trials.

Rows are compact: removing a node moves the last one into its place. Whatever changes a row says so in one of two logs,
one for the node object and one for the pods on it, and that is all that incremental evaluation needs to know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api.objects import NodeObject
from pyscheduler.api.pod import Pod
from pyscheduler.api.topology import Domains
from pyscheduler.core.state.changelog import ChangeLog
from pyscheduler.core.state.columns import CategoricalColumn
from pyscheduler.core.state.node import NodeRow
from pyscheduler.core.state.node_columns import ImageSet, NodeColumns
from pyscheduler.core.state.node_order import NodeOrder
from pyscheduler.core.state.placed import PlacedPods
from pyscheduler.core.state.table import ColumnTable

_versions = count()
_MANY_TOPOLOGIES = 64


class ClusterState:
    """Nodes and placed pods. Every change goes through here; reading goes through `info` and `table`."""

    def __init__(self) -> None:
        self.columns = NodeColumns()
        self.rows: list[NodeRow] = []
        self.order = NodeOrder()
        self.node_log = ChangeLog()
        """Rows whose node object changed."""
        self.usage_log = ChangeLog()
        """Rows whose pods changed."""
        self.nodes_version = next(_versions)
        """Another number whenever any node object changes, and never one that another cluster has had."""
        self.image_nodes: Counter[str] = Counter()
        """How many nodes report an image, by its name."""
        self.image_sizes: dict[str, int] = {}
        """Bytes of an image as the first of those nodes told them (kube-scheduler's image states)."""
        self.placed = PlacedPods()
        """The pods on known nodes by signature, and what plugins count of them."""
        self._topologies: dict[str, tuple[int, CategoricalColumn[str | None], Domains]] = {}
        self._label_keys: Counter[str] = Counter()
        """How many nodes have a label."""
        self._no_label: CategoricalColumn[str | None] = CategoricalColumn(None)
        """The column of every label that no node has: pods may ask for any number of those."""
        self._by_name: dict[str, NodeRow] = {}
        self._missing_nodes: dict[str, NodeRow] = {}
        self._node_of: dict[str, NodeRow] = {}
        self._undo: list[tuple[Pod, str, list[str] | None]] = []
        self._dry_runs = 0
        self._objects_version = 0
        self._whole_table: ColumnTable | None = None
        self._last_table: ColumnTable | None = None
        """Plugins are asked of the same rows one after the other, and each reads the same columns of them."""

    def __len__(self) -> int:
        return len(self.rows)

    def info(self, name: str) -> NodeRow | None:
        """The node of that name, or None."""
        return self._by_name.get(name)

    def node_order_rows(self) -> NDArray[np.intp]:
        """Return all rows in the order of kube-scheduler's node tree."""
        return self.order.rows(self._by_name)

    def table(self, rows: NDArray[np.intp] | None = None) -> ColumnTable:
        """All nodes in columns, or those of some rows."""
        if rows is None:
            whole = self._whole_table
            if whole is None or whole.nodes_version != self.nodes_version:
                whole = self._whole_table = ColumnTable(self)
            return whole
        last = self._last_table
        if last is None or not last.is_current_for(rows):
            last = self._last_table = ColumnTable(self, rows)
        return last

    # -- nodes ---------------------------------------------------------------------------------------------------

    def set_node(self, source: NodeObject) -> NodeObject | None:
        """Add or update a node; returns what it was before. QuantityError, with nothing changed, if unreadable."""
        name = source.metadata.name
        node = self._by_name.get(name)
        before = node.node if node else None
        if node is not None and before is not None and _is_same(before, source):
            node.node = source
            return before
        if node is None:
            node = self._missing_nodes.get(name) or NodeRow(name)
        images: Mapping[str, int] = node.images if before else {}
        labels: Mapping[str, str] = node.labels if before else {}
        node.describe(source)
        self._missing_nodes.pop(name, None)
        if before is None:
            node.row = len(self.rows)
            self.rows.append(node)
            self._by_name[name] = node
            for pod in node.pods.values():
                self.placed.changed(node, pod, 1)
        self._count_images(images, -1)
        self._count_images(node.images, 1)
        self._count_labels(labels, -1)
        self._count_labels(node.labels, 1)
        self.order.put(name, node.labels)
        self._write(node)
        return before

    def remove_node(self, name: str) -> NodeObject | None:
        """Forget a node; its pods are remembered in case it returns. Returns what it was, None if unknown."""
        node = self._by_name.pop(name, None)
        if node is None:
            return None
        for pod in node.pods.values():
            self.placed.changed(node, pod, -1)
        self.order.remove(name)
        last = self.rows.pop()
        if last is not node:
            self.placed.moved(last.row, node.row)
            last.row = node.row
            self.rows[node.row] = last
            self._write(last)
        # The last row is no more: nothing to compute there, but who reads all nodes must know.
        self.node_log.append(len(self.rows))
        self.nodes_version = next(_versions)
        node.row = -1
        self._count_images(node.images, -1)
        self._count_labels(node.labels, -1)
        if node.pods:
            self._missing_nodes[name] = node
        return node.node

    def label_column(self, key: str) -> CategoricalColumn[str | None]:
        """The values of one label, None where a node lacks it; built when first asked for."""
        if key not in self._label_keys:
            return self._no_label
        column = self.columns.labels.get(key)
        if column is None:
            column = self.columns.new_label(key)
            column.fill([node.labels.get(key) for node in self.rows])
        return column

    @property
    def label_keys(self) -> Collection[str]:
        """The keys of all labels that nodes have; live."""
        return self._label_keys.keys()

    def known_label(self, key: str) -> str:
        """The key itself, or "" for all those that no node has as a label."""
        return key if key in self._label_keys else ""

    def topology(self, key: str) -> Domains:
        """The domains of all nodes by the values of one label; the same object while no node changes."""
        known = self._topologies.get(key)
        if known is not None and known[0] == self.nodes_version and known[1] is self.columns.labels.get(key):
            return known[2]
        key = self.known_label(key)
        known, column = self._topologies.get(key), self.label_column(key)
        if known is None or known[0] != self.nodes_version or known[1] is not column:
            ids = column.ids(slice(0, len(self.rows)), len(self.rows)).astype(np.intp)
            ids.flags.writeable = False
            if len(self._topologies) >= _MANY_TOPOLOGIES:
                self._topologies.clear()
            known = self._topologies[key] = (self.nodes_version, column, Domains(ids, column.known))
        return known[2]

    def _count_images(self, images: Mapping[str, int], sign: int) -> None:
        for image, size in images.items():
            self.image_nodes[image] += sign
            if not self.image_nodes[image]:
                del self.image_nodes[image], self.image_sizes[image]
            else:
                self.image_sizes.setdefault(image, size)

    def _count_labels(self, labels: Iterable[str], sign: int) -> None:
        for key in labels:
            self._label_keys[key] += sign
            if not self._label_keys[key]:
                del self._label_keys[key]

    def _write(self, node: NodeRow) -> None:
        """Bring every column of the node's row up to date."""
        columns, row = self.columns, node.row
        columns.write_allocatable(row, node.allocatable)
        columns.write_requested(row, node.requested, node.non_zero_requested)
        columns.allowed_pods.set(row, node.allowed_pods)
        columns.pod_counts.set(row, len(node.pods))
        columns.unschedulable.set(row, node.unschedulable)
        columns.taints.set(row, node.taints)
        columns.ports.set(row, node.used_ports)
        columns.images.set(row, ImageSet(node.node.status.images or (), node.images))
        for key, column in columns.labels.items():
            column.set(row, node.labels.get(key))
        self.node_log.append(row)
        self.nodes_version = next(_versions)

    # -- pods ----------------------------------------------------------------------------------------------------

    def place(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node, known or not. A pod that is placed already is moved."""
        if pod.uid in self._node_of:
            self.remove(pod.uid)
        node = self._by_name.get(node_name) or self._missing_nodes.setdefault(node_name, NodeRow(node_name))
        node.put(pod)
        self._node_of[pod.uid] = node
        self._update_usage(node, pod, 1)
        if self._dry_runs:
            self._undo.append((pod, node_name, None))

    def remove(self, uid: str) -> Pod | None:
        """Take a pod off its node and return it; None if it is on none."""
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
        """A placed pod has a new version: same node, perhaps other labels or requests."""
        node = self._node_of[pod.uid]
        old = node.pods[pod.uid]
        if self._dry_runs or old.signature is not pod.signature:
            self.place(pod, node.name)
            return
        node.pods[pod.uid] = pod  # nothing that is counted has changed
        node.version += 1
        if pod.deleting != old.deleting and node.row >= 0:
            self.usage_log.append(node.row)  # but a pod that is on its way out may count for less
            self.placed.changed(node, old, -1)
            self.placed.changed(node, pod, 1)

    @property
    def dependency_version(self) -> int:
        """Another number whenever the first pod of a template is placed, the last one leaves, or an object changes."""
        return self.placed.templates_version + self._objects_version

    def objects_changed(self) -> None:
        """Something beside nodes and pods has changed, such as a Service: counts over many nodes may be new."""
        self._objects_version += 1
        self.usage_log.append(len(self.rows))  # no row of any node

    def node_of(self, uid: str) -> NodeRow | None:
        """The node (or ghost) that a pod is on, or None."""
        return self._node_of.get(uid)

    def add_pod(self, pod: Pod) -> None:
        """Place a pod on the node that its spec names."""
        self.place(pod, pod.node_name)

    def _update_usage(self, node: NodeRow, pod: Pod, sign: int) -> None:
        """Follow a pod that came (1) or left (-1)."""
        row = node.row
        if row < 0:
            return
        signature = pod.signature
        self.columns.follow(row, node, signature.requests)
        if signature.host_ports:
            self.columns.ports.set(row, node.used_ports)
        self.placed.changed(node, pod, sign)
        self.usage_log.append(row)

    # -- trials --------------------------------------------------------------------------------------------------

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Whatever is placed or removed inside is undone at the end, newest first. Trials may be nested."""
        mark = len(self._undo)
        self._dry_runs += 1
        try:
            yield
        finally:
            self._dry_runs -= 1
            steps = self._undo[mark:]
            del self._undo[mark:]
            for step in reversed(steps):
                self._revert(*step)

    def _revert(self, pod: Pod, node_name: str, behind: list[str] | None) -> None:
        """Undo a removal, `behind` naming the pods that stood behind this one on its node; None: undo a placement."""
        # The undo log was cut before: an outer trial must not learn of steps that cancel out.
        trials, self._dry_runs = self._dry_runs, 0
        try:
            if behind is None:
                self.remove(pod.uid)
                return
            self.place(pod, node_name)
            pods = self._node_of[pod.uid].pods
            for uid in behind:
                pods[uid] = pods.pop(uid)
        finally:
            self._dry_runs = trials


def _is_same(before: NodeObject, now: NodeObject) -> bool:
    """Whether nothing that scheduling reads has changed: most updates of a node are heartbeats."""
    old, new = before.metadata, now.metadata
    same_meta = old.labels == new.labels and old.annotations == new.annotations
    return same_meta and before.spec == now.spec and before.status == now.status
