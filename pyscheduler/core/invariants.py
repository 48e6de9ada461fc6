"""Invariants of the machine's state, checked after every scenario and property test, and on request."""

from __future__ import annotations

from pyscheduler.api.quantity import MAX_INT64
from pyscheduler.core.context import Context
from pyscheduler.core.queue.entry import Tier
from pyscheduler.core.queue.queued_pod_group import QueuedPodGroup, pods_of
from pyscheduler.core.scheduling.pod_stages import Stage
from pyscheduler.core.state import ClusterState
from pyscheduler.core.state.node import NodeRow


def validate(context: Context) -> None:
    """Raise AssertionError if the machine's state is inconsistent."""
    if not context.state.is_dry_run:  # a paused attempt has removed pods from their nodes
        _check_stages(context)
        _check_assumed_pods(context)
    _check_pods_exist(context)
    _check_unconfirmed(context)
    _check_suspended_attempt(context)
    _check_in_flight(context)
    _check_nominated_pods(context)
    _check_columns(context.state)


def _check_stages(context: Context) -> None:
    for uid, stages in stages_of_pods(context).items():
        pod = context.pods.get(uid)
        shown = pod if pod is not None else uid
        assert len(stages) <= 1, f"{shown} is in stages {' and '.join(stage.value for stage in stages)}"
        if pod is not None and context.is_responsible_for(pod) and not pod.deleting:
            assert stages, f"{pod} is lost: in no queue and on no node"


def _check_pods_exist(context: Context) -> None:
    pending = context.queue.pending()
    for queued in pending:
        assert queued.pod.uid in context.pods, f"{queued.pod} is in the queue and no longer exists"
        assert queued.pod.uid in context.queue, f"{queued.pod} is in a tier and not in the index of the tiers"
    assert len(context.queue) == len(pending), f"the tiers have {len(pending)} pods, their index {len(context.queue)}"
    for node in context.state.rows:
        for uid, pod in node.pods.items():
            assert uid in context.pods, f"{pod} is on {node.name} and no longer exists"
    for uid in context.handle.pods.named_uids():
        assert uid in context.pods, f"the pod with UID {uid} is known by its name and no longer exists"


def _check_assumed_pods(context: Context) -> None:
    for uid, waiting in context.handle.waiting_pods.by_uid.items():
        assumed = context.assumed.get(uid)
        assert assumed is not None, f"{waiting.pod} waits in Permit but is not assumed"
        assert assumed.stage is Stage.WAITING, f"{waiting.pod} waits in Permit in stage {assumed.stage.name}"
    for uid, assumed in context.assumed.items():
        node = context.state.node_of(uid)
        assert node is not None, f"{assumed.pod} is assumed but on no node"
        if assumed.stage is Stage.ASSUMED:
            group = None if context.suspended is None else context.suspended.queued
            is_placed_now = isinstance(group, QueuedPodGroup) and uid in group.members
            assert is_placed_now, f"{assumed.pod} is assumed and neither waits nor is being bound"
        is_waiting = assumed.stage is Stage.WAITING
        assert context.queue.in_flight(uid) == is_waiting, f"{assumed.pod} is in flight in stage {assumed.stage.name}"


def _check_unconfirmed(context: Context) -> None:
    bound = {uid for uid, assumed in context.assumed.items() if assumed.stage is Stage.BOUND}
    assert bound == {*context.unconfirmed}, f"bound pods and lookups differ: {bound ^ {*context.unconfirmed}}"


def _check_suspended_attempt(context: Context) -> None:
    if context.suspended is not None:
        pod = context.suspended.pod
        assert context.queue.in_flight(pod.uid), f"{pod} has a suspended attempt but is not in flight"


def _check_in_flight(context: Context) -> None:
    """Check that between two calls only pods that wait in Permit or have a suspended attempt are in flight."""
    suspended = () if context.suspended is None else pods_of(context.suspended.queued)
    in_attempt = {queued.pod.uid for queued in suspended}
    for tier, queued in context.queue.known():
        if tier is Tier.IN_FLIGHT:
            waits = queued.pod.uid in context.handle.waiting_pods.by_uid
            assert waits or queued.pod.uid in in_attempt, f"{queued.pod} is in flight without an attempt"


def _check_nominated_pods(context: Context) -> None:
    """Check that nominated pods exist and are pending; a terminating pod keeps its nomination for a while."""
    nominator, queue = context.queue.nominator, context.queue
    for name in nominator.nodes():
        for pod in nominator.pods_on(name):
            newest = context.pods.get(pod.uid)
            assert newest is not None, f"{pod} is nominated to {name} and no longer exists"
            pending = pod.uid in queue or (queue.in_flight(pod.uid) and pod.uid not in context.assumed)
            assert pending or newest.deleting, f"{pod} is nominated to {name} and is not pending"


def _check_columns(state: ClusterState) -> None:
    """Check that columns and totals equal the sums over the pods on each node."""
    table = state.table()
    counts = table.pod_counts
    for i, node in enumerate(state.rows):
        assert node.row == i, f"{node.name} is in row {i}, its row attribute is {node.row}"
        requested = _requested(node)
        assert node.requested == requested, f"{node.name} has {node.requested} requested, its pods request {requested}"
        assert int(counts[i]) == len(node.pods), f"{node.name} has {len(node.pods)} pods, its column has {counts[i]}"
        for resource, amount in requested.items():
            column = int(table.requested(resource)[i])
            assert column == min(amount, MAX_INT64), (
                f"{node.name} has {amount} {resource} requested, its column has {column}"
            )


def _requested(node: NodeRow) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in node.pods.values():
        for resource, n in pod.requests.effective.items():
            total[resource] = total.get(resource, 0) + n
    return {resource: n for resource, n in total.items() if n}


def stages_of_pods(context: Context) -> dict[str, list[Stage]]:
    """Return the stages of every pod of the context by UID: exactly one, if the context is consistent.

    The list of a pod that is in none of them is empty.
    """
    stages: dict[str, list[Stage]] = {}
    for uid in context.pods:
        if uid in context.assumed:
            stages[uid] = [context.assumed[uid].stage]
        else:
            stages[uid] = [] if context.state.node_of(uid) is None else [Stage.ASSIGNED]
    for tier, queued in context.queue.known():
        if context.queues_resize(queued.pod):
            continue  # it is assigned, whatever the queue does with its resize
        of_pod = stages.setdefault(queued.pod.uid, [])
        if tier is not Tier.IN_FLIGHT:
            of_pod.append(Stage(tier.value))
        elif not of_pod:
            # A pod that waits in Permit is in flight too, and so is one bound by another scheduler during the attempt.
            of_pod.append(Stage.ATTEMPT)
    return stages
