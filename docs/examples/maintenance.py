"""Maintenance: reject the nodes that are named in Maintenance objects."""

from pyscheduler.api import (
    SKIP,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    NodeInfo,
    NodeTable,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    Reads,
    Rejection,
    ResourceKind,
    Skip,
    StateKey,
)

MAINTENANCE = ResourceKind("example.com", "v1", "maintenances", "Maintenance", namespaced=False)
CLOSED: StateKey[frozenset[str]] = StateKey("Maintenance")


class Maintenance(PreFilterPlugin, FilterPlugin):
    name = "Maintenance"
    reads = Reads.EVERYTHING  # results depend on objects that are neither nodes nor pods
    watches = (MAINTENANCE,)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(MAINTENANCE.kind, Action.UPDATE | Action.DELETE, self._reopens_node),)

    def _reopens_node(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        reopened = event.new is None or event.new["spec"] != event.old["spec"]
        return QueueingHint.QUEUE if reopened else QueueingHint.SKIP

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        cycle[CLOSED] = frozenset(m["spec"]["nodeName"] for m in self.handle.objects[MAINTENANCE].values())
        return None if cycle[CLOSED] else SKIP

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        return Rejection("node(s) were under maintenance") if node.name in cycle[CLOSED] else None
