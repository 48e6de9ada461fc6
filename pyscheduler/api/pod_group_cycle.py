"""Extension points in the scheduling cycle of a pod group, as in kube-scheduler 1.37 (KEP-4671, KEP-6076)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pyscheduler.api.nodes import NodeInfo
from pyscheduler.api.outcome import Rejection
from pyscheduler.api.plugin import Plugin
from pyscheduler.api.pod import Pod
from pyscheduler.api.pod_group import PodGroup


class Placement(Struct, frozen=True, eq=False):
    """Nodes for the pods of a group; it has its minimums."""

    group: PodGroup
    members: Sequence[tuple[Pod, NodeInfo]]
    """Pods with the node that each has already, or would get. They are counted on it."""
    remaining: Sequence[Pod]
    """Pods that would get no node."""


class PlacementFeasiblePlugin(Plugin):
    """Check of a whole placement, which no Filter plugin can make: it sees one pod at a time."""

    @abstractmethod
    def placement_feasible(self, placement: Placement) -> Rejection | None:
        """Return None if the group may be placed so, or why not; then other domains and other nodes are tried.

        Also called in the dry runs of preemption.
        """


class NominateGroup(Struct, frozen=True):
    """Nomination of the pods of a group: they fit these nodes once other pods are evicted."""

    nodes: Mapping[str, str]
    """Names of nodes by UID of the pod, which is pending."""
    evict: Sequence[Pod] = ()
    """Pods to evict, on any nodes."""


class PodGroupPostFilterPlugin(Plugin):
    """Attempt to make a group schedulable that does not fit. The plugins run in order, before preemption."""

    @abstractmethod
    def pod_group_post_filter(self, group: PodGroup, pods: Sequence[Pod], message: str) -> NominateGroup | Rejection:
        """Return the nodes that the pods get later, or why the plugin does not help.

        `pods` are all pending ones, `message` is why they do not fit. After a Rejection the next plugin runs, and
        preemption at last; after one that is not resolvable, nothing.
        """
