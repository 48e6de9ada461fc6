"""TimeSlots: nodes that batch pods may use at some times of the day only (Volcano's tdm).

Nodes of a revocable zone serve other work outside of the zone's time slots. Pods that opt in are placed there within
them, and evicted at their end.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from pyscheduler.api import (
    MAX_NODE_SCORE,
    NODE,
    SKIP,
    TIME,
    Action,
    ClusterEventWithHint,
    Cycle,
    FilterPlugin,
    Handle,
    Mask,
    NodeInfo,
    NodeTable,
    NodeToStatus,
    Pod,
    PodSignatureGroup,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rejection,
    ScorePlugin,
    Scores,
    Skip,
    StateKey,
    TimedPlugin,
    TimeUpdate,
)
from pyscheduler.api.match import Requirement
from pyscheduler_plugins.job_budgets import JOB_NAME, Job, within_budgets

ZONE = "volcano.sh/revocable-zone"
"""Label of nodes with their zone; annotation of pods with the zones that they may use, `*` for all."""
PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation of pods that may use all zones if it is true and they name none."""
ALL_ZONES = "*"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CRITICAL_PRIORITY = 2_000_000_000
"""Priority of system-cluster-critical: such pods are not evicted."""

NOT_ALLOWED = Rejection("node(s) were in a revocable zone that the pod does not allow", resolvable=False)
OUTSIDE = Rejection("node(s) were in a revocable zone outside of its time slots", resolvable=False)

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_HAS_ZONE = Requirement(ZONE, "Exists")
_WEEK = 7
_ZONES: StateKey[frozenset[str]] = StateKey("TimeSlots")
"""Zones that the pod may use now."""


@dataclass(frozen=True, slots=True)
class Zone:
    """A revocable zone: its time slots, such as `22:00-06:00`, and the days on which they begin, by default all."""

    name: str
    slots: tuple[str, ...]
    days: tuple[str, ...] = DAYS


@dataclass(frozen=True, slots=True)
class TimeSlotsArgs:
    """Zones, the time zone of their slots, and the seconds after which evictions are repeated."""

    zones: tuple[Zone, ...] = ()
    time_zone: str = "UTC"
    eviction_period_seconds: float = 60.0

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.time_zone)
        except (KeyError, OSError, ValueError) as error:
            raise ValueError(f'timeZone: Invalid value: "{self.time_zone}": {error.args[0]}') from error
        if not 0 < self.eviction_period_seconds < math.inf:
            raise ValueError(f"evictionPeriodSeconds: must be greater than 0, not {self.eviction_period_seconds}")
        names = [zone.name for zone in self.zones]
        for i, zone in enumerate(self.zones):
            if not zone.name or zone.name == ALL_ZONES:
                raise ValueError(f'zones[{i}].name: Invalid value: "{zone.name}": must be the name of a zone')
            if names.index(zone.name) != i:
                raise ValueError(f'zones[{i}].name: Duplicate value: "{zone.name}"')
            if not zone.slots:
                raise ValueError(f"zones[{i}].slots: Required value")
            for j, slot in enumerate(zone.slots):
                _read_slot(slot, f"zones[{i}].slots[{j}]")
            for j, day in enumerate(zone.days):
                if day not in DAYS:
                    supported = ", ".join(f'"{each}"' for each in DAYS)
                    text = f'Unsupported value: "{day}": supported values: {supported}'
                    raise ValueError(f"zones[{i}].days[{j}]: {text}")


def _read_slot(slot: str, path: str = "") -> tuple[time, time]:
    """Return start and end of a slot. ValueError names its path."""
    try:
        start, end = (time.fromisoformat(part.strip()) for part in slot.split("-"))
    except ValueError:
        raise ValueError(f'{path}: Invalid value: "{slot}": must be two times such as 22:00-06:00') from None
    if start.tzinfo or end.tzinfo:
        raise ValueError(f'{path}: Invalid value: "{slot}": the argument timeZone has the time zone')
    return start, end


def allows(pod: Pod, zone: str) -> bool:
    """Return True if the pod may run in a zone, as its annotations declare."""
    declared = pod.annotations.get(ZONE)
    if declared is None:
        return pod.annotations.get(PREEMPTABLE) in _TRUE
    return declared.strip() == ALL_ZONES or zone in map(str.strip, declared.split(","))


class Slots:
    """Time slots of a zone."""

    def __init__(self, zone: Zone, time_zone: ZoneInfo) -> None:
        self._times = [_read_slot(slot) for slot in zone.slots]
        self._days = {DAYS.index(day) for day in zone.days}
        self._time_zone = time_zone

    def is_active(self, now: float) -> bool:
        """Return True if the time, in seconds since 1970, is in a slot: at its start, and not at its end."""
        return any(start <= now < end for start, end in self._around(now))

    def next_change(self, now: float) -> float | None:
        """Return the first start or end of a slot after the time; None without slots."""
        return min((at for slot in self._around(now) for at in slot if at > now), default=None)

    def _around(self, now: float) -> Iterator[tuple[float, float]]:
        """Yield start and end of the slots that begin from yesterday on for more than a week."""
        today = datetime.fromtimestamp(now, self._time_zone).date()
        for offset in range(-1, _WEEK + 1):
            day = today + timedelta(days=offset)
            if day.weekday() in self._days:
                for start, end in self._times:
                    last = day if start < end else day + timedelta(days=1)
                    yield self._at(day, start), self._at(last, end)

    def _at(self, day: date, at: time) -> float:
        return datetime.combine(day, at, self._time_zone).timestamp()


class TimeSlots(TimedPlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Keep pods off nodes of revocable zones, except for those that allow it within the time slots of the zone.

    These prefer such nodes, so that other nodes stay free. At the end of a slot they are evicted, within the budgets of
    their jobs.
    """

    name = "TimeSlots"
    Args = TimeSlotsArgs
    indexes = (JOB_NAME,)
    reads = Reads.OWN_NODE  # the active zones are in the cache key
    reads_claims = False
    reads_match_fields = False
    has_score_key = True

    def __init__(self, args: TimeSlotsArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        time_zone = ZoneInfo(args.time_zone)
        self._slots = {zone.name: Slots(zone, time_zone) for zone in args.zones}
        self._period = args.eviction_period_seconds
        self._active: frozenset[str] = frozenset()
        self._next: float | None = None

    def sign_group(self, group: PodSignatureGroup) -> Hashable:
        return ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(TIME, Action.UPDATE),
            ClusterEventWithHint(NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        )

    # -- time ----------------------------------------------------------------------------------------------------

    def advance_to(self, now: float) -> TimeUpdate:
        before = self._active
        self._active = frozenset(name for name, slots in self._slots.items() if slots.is_active(now))
        changes = [at for slots in self._slots.values() if (at := slots.next_change(now)) is not None]
        # Pods may come to a node after the end of a slot: their bindings were under way, or the node got its label.
        checks = [now + self._period] if len(self._active) < len(self._slots) else []
        self._next = min([*changes, *checks], default=None)
        evictions = within_budgets(self._pods_outside(), self._members_of)
        return TimeUpdate(self._active != before, tuple(evictions))

    def next_time(self) -> float | None:
        return self._next

    def _members_of(self, job: Job) -> Mapping[str, Pod]:
        return self.handle.pods.by_label(JOB_NAME, job.namespace, job.name)

    def _pods_outside(self) -> Iterator[tuple[Pod, str]]:
        """Yield the pods to evict, with the reason: those that allow a zone and run there outside of its slots."""
        nodes = self.handle.nodes.table()
        for i in np.flatnonzero(self._in_zones(nodes)).tolist():
            zone = nodes[i].labels.get(ZONE, "")
            if zone in self._active or zone not in self._slots:
                continue
            for pod in nodes[i].pods.values():
                if not pod.deleting and pod.priority < CRITICAL_PRIORITY and allows(pod, zone):
                    yield pod, f"the time slot of revocable zone {zone} has ended"

    @staticmethod
    def _in_zones(nodes: NodeTable) -> Mask:
        return nodes.matches_requirement(_HAS_ZONE)

    # -- filter and score ----------------------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        if ZONE not in nodes.label_keys:
            return SKIP
        cycle[_ZONES] = frozenset(zone for zone in self._active if allows(pod, zone))
        return None

    def filter_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_ZONES]

    def filter(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> Rejection | None:
        zone = node.labels.get(ZONE)
        if zone is None or zone in cycle[_ZONES]:
            return None
        return OUTSIDE if allows(pod, zone) else NOT_ALLOWED

    def filter_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> NodeToStatus:
        statuses, outside = NodeToStatus(len(nodes)), self._in_zones(nodes)
        if not outside.any():
            return statuses
        outside = outside & ~self._usable(cycle, nodes)
        values = {nodes[i].labels[ZONE] for i in np.flatnonzero(outside).tolist()}
        refused = nodes.matches_requirement(Requirement(ZONE, "In", tuple(v for v in values if not allows(pod, v))))
        statuses.reject(outside & refused, NOT_ALLOWED)
        statuses.reject(outside & ~refused, OUTSIDE)
        return statuses

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Skip | None:
        if ZONE not in nodes.label_keys or not any(allows(pod, zone) for zone in self._active):
            return SKIP
        cycle[_ZONES] = frozenset(zone for zone in self._active if allows(pod, zone))
        return None

    def score_cache_key(self, cycle: Cycle) -> Hashable:
        return cycle[_ZONES]

    def score(self, cycle: Cycle, pod: Pod, node: NodeInfo) -> int:
        return MAX_NODE_SCORE if node.labels.get(ZONE) in cycle[_ZONES] else 0

    def score_all(self, cycle: Cycle, pod: Pod, nodes: NodeTable) -> Scores:
        return self._usable(cycle, nodes) * np.int64(MAX_NODE_SCORE)

    @staticmethod
    def _usable(cycle: Cycle, nodes: NodeTable) -> Mask:
        """Return a mask of the nodes in zones that the pod may use now."""
        zones = cycle[_ZONES]
        return nodes.matches_requirement(Requirement(ZONE, "In", tuple(sorted(zones))))
