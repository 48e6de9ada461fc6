"""Rows of `pyscheduler groups`: every pod group of a machine, with its state and the reason why it waits.

Requirements, missing members and closed queues are computed by the plugins, from the objects as they are now. Why a
group lacks room, the scheduler has written to the PodScheduled conditions of its pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from pyscheduler.api import Pod, PodGroup, PodGroupKey, Rejection
from pyscheduler.cli.batch_cluster import ReadScope
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups.manager import PodGroupManager
from pyscheduler.core.pod_groups.members import SINGLE_POD
from pyscheduler.core.pod_groups.pod_group_state import PodGroupState
from pyscheduler.core.pod_groups.queue_gate import QUEUE_GATE, has_other_gates
from pyscheduler_plugins.pod_groups.declared import is_of_controller
from pyscheduler_plugins.queues.plugin import Queues

GATED: Final = "Gated"
"""State of a group that is not attempted: pods, its PodGroup or an open queue are missing."""
WAITING: Final = "Waiting"
"""State of a group that is attempted, and lacks room or quota."""
INCOMPLETE: Final = "Incomplete"
"""State of a group with fewer nodes than its minimum, for example after a lost node."""
SCHEDULED: Final = "Scheduled"
"""State of a group whose minimum has nodes."""
COMPLETED: Final = "Completed"
STATES: Final = (WAITING, INCOMPLETE, GATED, SCHEDULED, COMPLETED)

_GATED_REASON: Final = "SchedulingGated"
_QUOTA_REASON: Final = "QuotaExceeded"
_NOT_ATTEMPTED: Final = "not attempted yet"
_WHOLE: Final = ReadScope()


class Reason(NamedTuple):
    """Reason why pods wait: reason and message of the PodScheduled condition."""

    reason: str = ""
    message: str = ""


class MemberRow(msgspec.Struct, frozen=True, rename="camel"):
    """Displayed member of a group."""

    name: str
    role: str
    phase: str
    node: str
    """Node of the pod; "" if it waits."""
    reason: str
    message: str


class GroupRow(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Displayed pod group. The fields are the keys of the JSON output."""

    namespace: str
    name: str
    api: str
    """API group of its PodGroup; "" if annotations of the pods declare the group, `Pod` for a pod without a group."""
    queue: str = ""
    priority: int | None = None
    state: str
    needed: int | None = None
    """Minimum of pods; None if the PodGroup is missing or invalid."""
    needed_by_role: Mapping[str, int] = msgspec.field(default_factory=dict)
    pending: int = 0
    gated: int = 0
    """Number of pods that have scheduling gates."""
    placed: int = 0
    """Number of pods with a node."""
    succeeded: int = 0
    position: int | None = None
    """Position among the groups of its queue that wait, 1 for the next one; None for a group that does not wait."""
    in_line: int = 0
    """Number of groups of its queue that wait; 0 for a group that does not wait."""
    ahead: str = ""
    """Group directly ahead of it in the queue."""
    reason: str = ""
    message: str = ""
    created: str = ""
    members: tuple[MemberRow, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def waits(self) -> bool:
        """True if the group lacks nodes for its minimum and is attempted."""
        return self.state in (WAITING, INCOMPLETE) and self.reason != _GATED_REASON


def group_rows(context: Context, scope: ReadScope = _WHOLE) -> list[GroupRow]:
    """Return all groups by namespace and name; with queues, pods without a group are groups of their own.

    Groups with pods of other schedulers only are left out. If the scope is not whole, objects of other namespaces or
    without one may be missing: nothing is concluded from queues then, and no group has a position.
    """
    groups = context.groups
    groups.report_usage()
    rows = [
        _MemberGroup(context, key, state, scope).row()
        for key, state in groups.items()
        if any(pod.scheduler_name in context.profiles for pod in (*state.pods.values(), *state.succeeded.values()))
    ]
    rows += _without_pods(context, {key for key, _ in groups.items()})
    return sorted(_with_positions(rows) if scope.is_whole else rows, key=lambda row: (row.namespace, row.name, row.api))


def quota_plugin(context: Context) -> Queues | None:
    """Return the plugin Queues of the profiles; None without it."""
    quota = context.groups.quota
    return quota if isinstance(quota, Queues) else None


class _MemberGroup:
    """One group with members."""

    def __init__(self, context: Context, key: PodGroupKey, state: PodGroupState, scope: ReadScope) -> None:
        self._groups: PodGroupManager = context.groups
        self._quota = quota_plugin(context)
        self._key, self._state, self._is_whole = key, state, scope.is_whole
        owners = [pod.signature.owner for pod in state.succeeded.values()]
        jobs = ["" if owner is None else owner.uid for owner in owners]
        self._has_ended_job = not state.pods and len({*jobs}) == 1 and jobs[0] in scope.succeeded_jobs
        """True if only succeeded pods of a Job with a met success policy are left: the others were stopped."""
        self._declared = self._groups.requirements(key)
        unplaced = [pod for uid, pod in state.pods.items() if uid not in state.placed]
        self._gated = [pod for pod in unplaced if self._is_gated(pod)]
        self._pending = [pod for pod in unplaced if not self._is_gated(pod)]

    def _is_gated(self, pod: Pod) -> bool:
        """Return True if the pod has a gate that its queue does not remove."""
        return has_other_gates(pod) if self._quota is not None else bool(pod.spec.scheduling_gates)

    def row(self) -> GroupRow:
        group = self._declared if isinstance(self._declared, PodGroup) else None
        name, reason = self._key.name, self._reason()
        if self._key.api == SINGLE_POD:
            name = next(iter((self._state.pods or self._state.succeeded).values())).name
        return GroupRow(
            namespace=self._key.namespace,
            name=name,
            api="" if is_of_controller(self._key) else self._key.api,
            queue="" if group is None or self._quota is None else self._quota.queue_of_group(group),
            priority=self._groups.priority_of(self._key, self._pods()),
            state=self._state_name(reason),
            needed=None if group is None else group.min_count,
            needed_by_role={} if group is None else group.min_count_by_role,
            pending=len(self._pending),
            gated=len(self._gated),
            placed=len(self._state.placed),
            succeeded=len(self._state.succeeded),
            reason=reason.reason,
            message=reason.message,
            created=(group.created if group is not None else "") or _oldest(self._pods()),
            members=tuple(sorted(map(self._member, self._pods()), key=lambda member: member.name)),
        )

    def _pods(self) -> list[Pod]:
        return [*self._state.pods.values(), *self._state.succeeded.values()]

    def _lacks(self) -> str:
        """Return what the pods with a node lack of the minimum, "" if nothing."""
        if self._has_ended_job:
            return ""
        if isinstance(self._declared, Rejection):
            exists = self._state.placed or self._state.succeeded
            return "" if exists and not self._pending else self._declared.message
        return self._groups.shortage(self._declared, ())

    def _state_name(self, reason: Reason) -> str:
        if not self._lacks():
            ended = self._state.succeeded and not self._state.pods
            return COMPLETED if ended else SCHEDULED
        if self._state.placed:
            return INCOMPLETE
        return GATED if reason.reason == _GATED_REASON else WAITING

    def _reason(self) -> Reason:
        """Return why pods of the group wait; empty if none does, or none is needed."""
        if not self._pending and not self._lacks():
            return Reason()
        written = next(filter(None, map(_condition, self._pending)), None)
        if written is not None and not self._is_whole:
            return written
        names = sorted({gate.name for pod in self._gated for gate in pod.spec.scheduling_gates or ()} - {QUEUE_GATE})
        if names and self._key.api == SINGLE_POD:
            return Reason(_GATED_REASON, f"the pod has scheduling gates: {', '.join(names)}")
        if gate := self._gate():
            more = f"; {len(self._gated)} more have scheduling gates: {', '.join(names)}" if names else ""
            return Reason(_GATED_REASON, gate + more)
        if written is not None:
            return written
        group = self._declared
        if self._is_whole and isinstance(group, PodGroup):
            exceeded = self._groups.exceeded(group, self._groups.needed(group, self._pending))
            if exceeded:
                return Reason(_QUOTA_REASON, exceeded)
        return Reason("", _NOT_ATTEMPTED)

    def _gate(self) -> str:
        """Return why the group is not attempted, "" if it is."""
        if self._is_whole:
            return self._groups.reason_to_wait(self._key, self._pending)
        if isinstance(self._declared, Rejection):
            return self._declared.message
        short = self._groups.shortage(self._declared, self._pending)
        return f"pod group {self._key} has only {short} that it needs" if short else ""

    def _member(self, pod: Pod) -> MemberRow:
        reason = _condition(pod) or Reason()
        phase = "Succeeded" if pod.uid in self._state.succeeded else pod.phase
        role = "" if self._key.api == SINGLE_POD else self._groups.role_of(pod)
        return MemberRow(pod.name, role, phase, pod.node_name, reason.reason, reason.message)


def _without_pods(context: Context, known: set[PodGroupKey]) -> Iterator[GroupRow]:
    """Return the groups of PodGroups that no pod names."""
    for profile in context.profiles.values():
        for kind in () if profile.pod_group is None else profile.pod_group.watches:
            if kind.kind != "PodGroup":
                continue
            for (namespace, name), obj in context.handle.objects[kind].items():
                key = PodGroupKey(namespace, name, kind.group)
                if key not in known:
                    known.add(key)
                    created = str(obj["metadata"].get("creationTimestamp") or "")
                    yield GroupRow(
                        namespace=namespace,
                        name=name,
                        api=kind.group,
                        state=GATED,
                        reason=_GATED_REASON,
                        message="no pod names it",
                        created=created,
                    )


def _with_positions(rows: Iterable[GroupRow]) -> Iterator[GroupRow]:
    """Return the rows, those that wait with their positions: by priority, then by age, incomplete groups first."""
    waiting: dict[str, list[GroupRow]] = {}
    for row in rows:
        if row.waits:
            waiting.setdefault(row.queue, []).append(row)
        else:
            yield row
    for queue in waiting.values():
        ahead = ""
        for position, row in enumerate(sorted(queue, key=_order), 1):
            yield msgspec.structs.replace(row, position=position, in_line=len(queue), ahead=ahead)
            ahead = row.key


def _order(row: GroupRow) -> tuple[int, bool, str, str]:
    return -(row.priority or 0), row.state != INCOMPLETE, row.created, row.key


def _condition(pod: Pod) -> Reason | None:
    """Return the reason that the scheduler has written to a pod, None if there is none."""
    for condition in pod.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Reason(condition.reason, condition.message)
    return None


def _oldest(pods: Iterable[Pod]) -> str:
    """Return the earliest known time of the pods: creation, or start for those with a node; "" if unknown."""
    times = [pod.created or pod.start_time for pod in pods]
    return min((time for time in times if time), default="")


def age_seconds(created: str, now: float) -> float | None:
    """Return the seconds since a time of the API server; None if it is unknown."""
    try:
        return now - datetime.fromisoformat(created).astimezone(UTC).timestamp()
    except ValueError:
        return None
