"""Placement of a pod group with subgroups: each subgroup gets nodes as a whole, or none of its pods does.

    SubgroupPlacementSearch._place_within
        _ways_within             the ways to place a group or subgroup among some nodes, one after the other
            _ways                of each of its subgroups, within each domain of its topology
            _place_pods          as many pods as a subgroup without parts needs
        _place_surplus           all other pods of the subgroups that have what they need

A subgroup that does not fit is left out if enough others remain. If too few do, the nodes of the one before it are
changed. The number of tries is limited, as that of the domains is (topology.py): the combinations are exponential.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import Final

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Mask
from pyscheduler.api.pod_group import PodGroup, PodGroupKey
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps
from pyscheduler.core.context import Context
from pyscheduler.core.pod_groups import subgroups
from pyscheduler.core.pod_groups.placement import PlacementSearch
from pyscheduler.core.pod_groups.room import relative_room, requests_of_nodes
from pyscheduler.core.pod_groups.topology import candidate_domains
from pyscheduler.core.scheduling.failure import SCHEDULING_GATED, Failure

_TRIES = 64
"""Number of times that the pods of a subgroup are placed anew, in addition to four for each subgroup."""
_BACKTRACKING_TRIES = 16
"""Number of those in which other nodes are tried for earlier pods of the subgroup."""

_PAUSE: Final = None
_END: Final = "end"
"""Default of `next` for ways that are exhausted."""
_Ways = Generator[bool | None, None, None]
"""Ways to place a group: True after each, False to leave the group out, and pauses."""


def placement_search(context: Context, group: PodGroup, now: float) -> PlacementSearch:
    """Return the search for nodes for the pending members of a group."""
    return (SubgroupPlacementSearch if group.subgroups else PlacementSearch)(context, group, now)


class SubgroupPlacementSearch(PlacementSearch):
    """Search for nodes for the pending members of a group with subgroups."""

    def __init__(self, context: Context, group: PodGroup, now: float) -> None:
        super().__init__(context, group, now)
        self._keys = context.groups.subgroup_keys(group)
        self._pending: dict[PodGroupKey, list[QueuedPod]] = {}
        """Pending members of each subgroup, without those in parts of it, the largest first."""
        self._started = Counter[PodGroupKey]()
        """Number of members that have started, as for `_pending`."""
        self._rows: dict[PodGroupKey, list[int]] = {}
        """Rows with such members."""
        self._masks: dict[PodGroupKey, Mask | None] = {}
        """Nodes on which each subgroup was placed last."""
        self._tries_left = self._backtracking_left = 0
        self._is_tight = False
        """True to place pods on the nodes with the least room: the best ones leave too little for other subgroups."""
        self._first = self._needed = 0
        """Number of members that are placed before those of the current subgroup, and that it needs itself."""

    def drop_incomplete(self) -> None:
        """Forget the placed members of subgroups that lack their minimum, after some have been forgotten."""
        counts = self._keys.count(self._context.groups[self._group.key].started)
        complete = set(self._complete(self._group, counts))
        for assumed in [each for each in self.placed if self._keys.key_of(each.pod) not in complete]:
            self.forget(assumed)
            key = self._keys.key_of(assumed.pod)
            self.failures.setdefault(assumed.pod.uid, Failure(f"the rest of pod group {key} was rejected", nominate=""))

    def _complete(self, group: PodGroup, counts: subgroups.Counts) -> Iterator[PodGroupKey]:
        """Return the keys of a group and of the subgroups in it that have their minimum, each within one that has."""
        yield group.key
        for each in group.subgroups:
            if subgroups.has_minimum(each, counts):
                yield from self._complete(each, counts)

    def _place_within(self, largest_first: Sequence[QueuedPod], within: Mask | None) -> Steps[bool]:
        allowed = self._allowed
        mask = within if allowed is None else allowed if within is None else within & allowed
        self._divide(largest_first)
        self.fitting, self.missing = 0, ""
        is_placed = yield from self._search(largest_first, mask)
        if not is_placed:
            failed = self.failures, self.fitting, self.missing
            self._is_tight = True
            is_placed = yield from self._search(largest_first, mask)
            self._is_tight = False
            if not is_placed:
                self.failures, self.fitting, self.missing = failed
        self._explain_others(largest_first)
        return is_placed

    def _search(self, members: Sequence[QueuedPod], within: Mask | None) -> Steps[bool]:
        """Place the group in the first way that is feasible. Return False if none is."""
        self.failures = {}
        self._tries_left, self._backtracking_left = _TRIES + 4 * len(self._pending), _BACKTRACKING_TRIES
        for way in self._ways_within(self._group, within):
            if way is _PAUSE:
                yield
                continue
            count, failures = len(self.placed), self.failures
            yield from self._place_surplus()
            if not self._context.groups.shortage(self._group, ()) and self._is_feasible(members):
                return True
            yield from self.undo_in_steps(count)
            self.failures = failures
        yield from self.undo_in_steps()
        return False

    def _divide(self, members: Iterable[QueuedPod]) -> None:
        """Divide the members among the subgroups."""
        self._pending, self._rows = {}, {}
        for queued in members:
            self._pending.setdefault(self._keys.key_of(queued.pod), []).append(queued)
        started = self._context.groups[self._group.key].started
        self._started = self._keys.count(started)
        for pod in started:
            node = self._context.state.node_of(pod.uid)
            if node is not None and node.row >= 0:
                self._rows.setdefault(self._keys.key_of(pod), []).append(node.row)

    def _explain_others(self, members: Iterable[QueuedPod]) -> None:
        """Add the failures of the members that have no node and were not tried: their subgroup has too few pods."""
        explained = {*self.failures, *(assumed.pod.uid for assumed in self.placed)}
        rest = [queued.pod for queued in members if queued.pod.uid not in explained]
        if not rest:
            return
        counts = self._started + Counter({key: len(pending) for key, pending in self._pending.items()})
        plugin = self._context.profiles[rest[0].scheduler_name].pod_group
        rejectors = frozenset() if plugin is None else frozenset({plugin.name})
        reasons: dict[PodGroupKey, Failure] = {}
        for node in subgroups.walk(self._group):
            short = subgroups.shortage(node, counts)
            text = f"has only {short} that it needs" if short else "was not placed as a whole"
            reason = SCHEDULING_GATED if short else Failure("").reason
            reasons[node.key] = Failure(f"pod group {node.key} {text}", reason, rejectors, nominate="")
        for pod in rest:
            self.failures[pod.uid] = reasons[self._keys.key_of(pod)]

    # -- groups ------------------------------------------------------------------------------------------------------

    def _ways(self, group: PodGroup, within: Mask | None) -> _Ways:
        """Place a subgroup in each domain of its topology, in each way. Yields True after it has been placed."""
        nodes = [*subgroups.walk(group)]
        pending = [queued for node in nodes for queued in self._pending.get(node.key, ())]
        started = sum(self._started[node.key] for node in nodes)
        if not pending:
            if subgroups.has_minimum(group, self._started):
                yield True
            return
        if not group.topology:
            yield from self._ways_within(group, within)
            return
        requests = requests_of_nodes(self._context.handle, (queued.pod for queued in pending))
        rows = [row for node in nodes for row in self._rows.get(node.key, ())]
        masks = candidate_domains(
            self._context.state.table(), group, requests, rows, max(0, group.min_count - started), within
        )
        has_domain = False
        for mask in masks:
            has_domain = True
            yield from self._ways_within(group, mask)
        if not has_domain:
            keys = ", ".join(constraint.key for constraint in group.topology if constraint.required)
            self.fitting = self.fitting if self.failures else len(self.placed)
            failure = Failure(f"pod group {group.key} fits into no single domain of {keys}", nominate="")
            for queued in pending:
                self.failures.setdefault(queued.pod.uid, failure)

    def _ways_within(self, group: PodGroup, within: Mask | None) -> _Ways:
        """Place a group or subgroup on these nodes in each way. Yields True after it has been placed."""
        self._masks[group.key] = within
        if group.subgroups:
            yield from self._ways_of_subgroups(group, within)
            return
        before, missing = len(self.placed), group.min_count - self._started[group.key]
        if (yield from self._place_pods(self._pending.get(group.key, ()), missing, within)):
            yield True
        yield from self.undo_in_steps(before)

    def _ways_of_subgroups(self, group: PodGroup, within: Mask | None) -> _Ways:
        """Place enough subgroups of a group in each way. Yields True after each."""
        parts = sorted(group.subgroups, key=self._rank)
        before = len(self.placed)
        options = [self._options(parts[0], within)]
        placed: list[bool] = []
        while options:
            del placed[len(options) - 1 :]
            outcome = next(options[-1], _END)
            if outcome is _PAUSE:
                yield _PAUSE
                continue
            if outcome is _END:
                options.pop()
                continue
            placed.append(outcome is True)
            if sum(placed) + len(parts) - len(placed) < group.min_subgroups:
                if self._tries_left <= 0:
                    break
            elif len(placed) < len(parts):
                options.append(self._options(parts[len(placed)], within))
            else:
                yield True
                if self._tries_left <= 0:
                    break
        yield from self.undo_in_steps(before)  # not all options have ended if there are no tries left

    def _options(self, group: PodGroup, within: Mask | None) -> _Ways:
        """Yield True after a subgroup has been placed, for each way, and False at last, to leave it out."""
        yield from self._ways(group, within)
        if not subgroups.has_minimum(group, self._started):
            yield False

    def _rank(self, group: PodGroup) -> tuple[bool, bool, float]:
        """Sort key of subgroups: those that have started, then those with a required topology, then the largest.

        In a tight placement, the size is that of the largest pod.
        """
        nodes, table = [*subgroups.walk(group)], self._context.state.table()
        total = Counter[str]()
        for node in nodes:
            for queued in self._pending.get(node.key, ()):
                requests = queued.pod.requests.effective
                total = Counter(requests) | total if self._is_tight else Counter(requests) + total
        shares = (amount / max(1, int(table.allocatable(r).max(initial=1))) for r, amount in total.items())
        is_free = not any(constraint.required for node in nodes for constraint in node.topology)
        return not any(self._started[node.key] for node in nodes), is_free, -max(shares, default=0.0)

    # -- pods --------------------------------------------------------------------------------------------------------

    def _place_pods(self, members: Sequence[QueuedPod], needed: int, within: Mask | None) -> Steps[bool]:
        """Place pods of one subgroup on these nodes, as many as it needs. Return False if these do not fit."""
        if not members:
            return needed <= 0
        if self._tries_left <= 0:
            return False
        self._tries_left -= 1
        self._first, self._needed, self.within = len(self.placed), needed, within
        others = self.failures
        is_placed = yield from (self._place_tightly(members) if self._is_tight else self._place_by_score(members))
        if not is_placed:
            failures = self.failures
            if not others:
                self.fitting, self.missing = len(self.placed), self._missing_resources(members)
            yield from self.undo_in_steps(self._first)
            is_placed = yield from self._place_in_other_order(members)
            self.failures = self.failures if is_placed else failures
        if is_placed:
            # The rest follows once all subgroups have what they need. The largest pods were placed first.
            for assumed in self.placed[self._first : len(self.placed) - max(0, needed)]:
                self.forget(assumed)
        self.failures = others | self.failures
        return is_placed

    def _place_surplus(self) -> Steps[None]:
        """Place the pods that are not needed, as far as they fit, and those of no subgroup."""
        placed = {assumed.pod.uid for assumed in self.placed}
        counts = self._keys.count(self._context.groups[self._group.key].started)
        others = self.failures
        for key in [*self._complete(self._group, counts)]:
            rest = [queued for queued in self._pending.get(key, ()) if queued.pod.uid not in placed]
            if rest:
                self._first, self._needed, self.within = len(self.placed), 0, self._masks.get(key)
                yield from self._place_by_score(rest)
                others = others | self.failures
        self.failures = others

    def _place_tightly(self, members: Sequence[QueuedPod]) -> Steps[bool]:
        """Place the smallest pods that suffice, or any, on the nodes with the least room. Return True if enough are."""
        if 0 < self._needed < len(members):
            if (yield from self._place_tightly(members[-self._needed :])):
                return True
            yield from self.undo_in_steps(self._first)
        self.failures = {}
        for i, queued in enumerate(members):
            yield from self._step.pause()
            rows = self.feasible_rows(queued)
            if isinstance(rows, Diagnosis):
                failure: Failure | None = Failure("no node has room for it")
            else:
                room = relative_room(self._context.state.table(rows), queued.pod)
                failure = self.place(queued, int(rows[room.argmin()]))
            if failure is not None:
                self.failures[queued.pod.uid] = failure
                if self.is_short(members[i + 1 :]):
                    return False
        return not self.is_short(())

    def _place_in_other_order(self, members: Sequence[QueuedPod]) -> Steps[bool]:
        """Place pods that differ on other nodes than the best ones. Return True if enough are placed."""
        if not self._backtracking_left or not self._may_fit_in_another_way(members, self._needed):
            return False
        self._backtracking_left -= 1
        first = self._first
        if (yield from self._place_with_backtracking(members)):
            return True
        yield from self.undo_in_steps(first)
        return False

    def is_short(self, remaining: Collection[QueuedPod]) -> bool:
        return len(self.placed) - self._first + len(remaining) < self._needed
