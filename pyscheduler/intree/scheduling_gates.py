"""SchedulingGates: hold pods with spec.schedulingGates (KEP-3521)."""

from __future__ import annotations

from collections.abc import Sequence

from pyscheduler.api import (
    POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Pod,
    PreEnqueuePlugin,
    QueueingHint,
    Rejection,
)
from pyscheduler.intree._hints import queue_if


class SchedulingGates(PreEnqueuePlugin):
    """Keep a pod out of the active queue until its spec.schedulingGates are empty."""

    name = "SchedulingGates"
    pre_enqueue_field = "scheduling_gates"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._own_gates_removed),)

    def _own_gates_removed(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return queue_if(event.new.uid == pod.uid)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        # Formatted as Go prints a list; alerts match this text.
        names = " ".join(gate.name for gate in gates)
        return Rejection(f"waiting for scheduling gates: [{names}]", resolvable=False)
