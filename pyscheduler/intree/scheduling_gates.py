"""SchedulingGates: a pod that still has a gate is not looked at (KEP-3521)."""

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
    """Keeps a pod out of the active queue until its spec.schedulingGates are all gone."""

    name = "SchedulingGates"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (ClusterEventWithHint(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._own_gates_gone),)

    def _own_gates_gone(self, pod: Pod, event: ClusterEvent) -> QueueingHint:
        return queue_if(event.new.uid == pod.uid)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        # Spelled as Go prints a list, because people and alerts know it that way.
        names = " ".join(gate.name for gate in gates)
        return Rejection(f"waiting for scheduling gates: [{names}]", resolvable=False)
