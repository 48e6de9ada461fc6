"""What must be true of a machine at any time; checked after every scenario and property test, and on request."""

from __future__ import annotations

from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.core.context import AssumedStage, Context
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node import NodeRow


def validate(context: Context) -> None:
    """AssertionError with one sentence if the machine's memory contradicts itself."""
    _check_single_place(context)
    _check_pods_exist(context)
    _waiting_room_is_assumed(context)
    _unconfirmed_are_bound(context)
    _check_suspended_attempt(context)
    _attempts_have_ended(context)
    _check_nominated_pods(context)
    _check_columns(context.state)


def _check_single_place(context: Context) -> None:
    for uid, pod in context.pods.items():
        places = [
            name
            for name, there in {
                "queue": uid in context.queue,
                "in flight": context.queue.in_flight(uid) and uid not in context.assumed,
                "a node": context.state.node_of(uid) is not None,
            }.items()
            if there
        ]
        assert len(places) <= 1, f"{pod} is in {' and '.join(places)}"
        if context.is_responsible_for(pod) and not pod.deleting:
            assert places, f"{pod} is lost: in no queue and on no node"


def _check_pods_exist(context: Context) -> None:
    for queued in context.queue.pending():
        assert queued.pod.uid in context.pods, f"{queued.pod} is in the queue and no longer exists"
    for node in context.state.rows:
        for uid, pod in node.pods.items():
            assert uid in context.pods, f"{pod} is on {node.name} and no longer exists"


def _waiting_room_is_assumed(context: Context) -> None:
    for uid, waiting in context.handle.waiting.items():
        assumed = context.assumed.get(uid)
        assert assumed is not None, f"{waiting.pod} waits but holds no place"
        assert assumed.stage is AssumedStage.WAITING, f"{waiting.pod} waits and is {assumed.stage.name}"
    for uid, assumed in context.assumed.items():
        node = context.state.node_of(uid)
        assert node is not None, f"{assumed.pod} is assumed but on no node"


def _unconfirmed_are_bound(context: Context) -> None:
    bound = {uid for uid, assumed in context.assumed.items() if assumed.stage is AssumedStage.BOUND}
    assert bound == {*context.unconfirmed}, f"{bound ^ {*context.unconfirmed}} would never be looked up, or for ever"


def _check_suspended_attempt(context: Context) -> None:
    if context.suspended is not None:
        pod = context.suspended.pod
        assert context.queue.in_flight(pod.uid), f"extenders are asked about {pod}, which is not being tried"


def _attempts_have_ended(context: Context) -> None:
    """Between two calls nobody is being tried but who is parked by Permit or asked about."""
    for tier, queued in context.queue.known():
        if tier is Tier.IN_FLIGHT:
            uid = queued.pod.uid
            asked = context.suspended is not None and context.suspended.queued is queued
            assert asked or uid in context.handle.waiting, f"{queued.pod} is in flight and nobody tries it"


def _check_nominated_pods(context: Context) -> None:
    """A nomination goes with its pod, or when the pod has a place; a pod that is being deleted keeps it for a while."""
    nominator, queue = context.queue.nominator, context.queue
    for name in nominator.nodes():
        for pod in nominator.pods_on(name):
            known = context.pods.get(pod.uid)
            assert known is not None, f"{pod} is nominated to {name} and no longer exists"
            waits = pod.uid in queue or (queue.in_flight(pod.uid) and pod.uid not in context.assumed)
            assert waits or known.deleting, f"{pod} is nominated to {name} and does not wait for a place"


def _check_columns(state: ClusterState) -> None:
    """Columns and sums equal what the pods on each node add up to."""
    table = state.table()
    counts = table.pod_counts
    for i, node in enumerate(state.rows):
        assert node.row == i, f"{node.name} is in row {i} and says {node.row}"
        requested = _requested(node)
        assert node.requested == requested, f"{node.name} counts {node.requested}, its pods ask for {requested}"
        assert int(counts[i]) == len(node.pods), f"{node.name} has {len(node.pods)} pods, its column says {counts[i]}"
        for resource, amount in requested.items():
            column = int(table.requested(resource)[i])
            assert column == min(amount, MAX_INT64), (
                f"{node.name} has {amount} {resource} requested, its column says {column}"
            )


def _requested(node: NodeRow) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in node.pods.values():
        for resource, n in pod.requests.effective.items():
            total[resource] = total.get(resource, 0) + n
    return {resource: n for resource, n in total.items() if n}
