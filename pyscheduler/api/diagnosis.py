"""Reasons why no node fits a pod: input of PostFilter and source of the FailedScheduling message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np

from pyscheduler.api.nodes import Ints, Mask, NodeTable
from pyscheduler.api.outcome import Code, Status


class Diagnosis(msgspec.Struct):
    """Result of filtering when no node fits (kube-scheduler's Diagnosis and FitError).

    `tally` counts nodes by the status that the first rejecting plugin gave them. `status_of(name)` returns the status
    of one node, or None.
    """

    total_nodes: int
    tally: Counter[Status] = msgspec.field(default_factory=Counter)
    status_of: Callable[[str], Status | None] = lambda _: None
    codes: Callable[[], Ints] | None = None
    """Getter for the status codes of all nodes, in the order of `handle.nodes`. Optional; speeds up `resolvable`."""
    pre_filter: Status | None = None
    """Status of a rejection by PreFilter; in that case no node was filtered."""
    post_filter_message: str = ""
    """Message of the PostFilter plugins; appended to `filter_message`."""
    unschedulable_plugins: set[str] = msgspec.field(default_factory=set)
    """Names of the plugins that returned Unschedulable or UnschedulableAndUnresolvable."""
    pending_plugins: set[str] = msgspec.field(default_factory=set)
    """Names of the plugins that returned Pending."""

    def resolvable(self, nodes: NodeTable) -> Mask:
        """Return a mask of the nodes with code Unschedulable, where evicting pods may help."""
        if self.pre_filter is not None:
            return np.full(len(nodes), self.pre_filter.code is Code.UNSCHEDULABLE)
        codes = {status.code for status in self.tally}
        if len(codes) == 1 and self.tally.total() == len(nodes):  # frequent in a full cluster: no code is read then
            return np.full(len(nodes), Code.UNSCHEDULABLE in codes)
        if self.codes is not None:
            return np.equal(self.codes(), Code.UNSCHEDULABLE)
        statuses = (self.status_of(name) for name in nodes.names)
        return np.fromiter((s is not None and s.code is Code.UNSCHEDULABLE for s in statuses), np.bool_, len(nodes))

    @property
    def filter_message(self) -> str:
        """Filter's part of the message: `0/3 nodes are available: 1 Insufficient memory, 2 Insufficient cpu.`

        The text is kube-scheduler's (FitError.Error).
        """
        text = f"0/{self.total_nodes} nodes are available:"
        if self.pre_filter is not None:
            return f"{text} {self.pre_filter.message}." if self.pre_filter.message else text
        counts: Counter[str] = Counter()
        for status, nodes in self.tally.items():
            for reason in status.reasons:
                counts[reason] += nodes
        # Sorted as strings, count included, so "10 x" comes before "2 y": alerts match this exact text.
        parts = sorted(f"{n} {reason}" for reason, n in counts.items())
        return f"{text} {', '.join(parts)}." if parts else text

    @property
    def message(self) -> str:
        """Complete message, as in the FailedScheduling event."""
        more = self.post_filter_message
        return f"{self.filter_message} {more}" if more else self.filter_message
