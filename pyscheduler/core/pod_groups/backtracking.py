"""Second search for nodes of a pod group: other nodes for earlier members after a dead end.

    Backtracking.run
        _next        the members with the fewest places first; those with affinity to others once these have nodes
        _rank        first the domains with room for those that must follow, then the nodes that others need least
        _go_back     after a dead end, to the last choice that may have taken a node from the member

Members of one kind are interchangeable, and so are nodes that fit the same members, have as much room and are in the
same domain: one of each such class is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.pod import Pod, PodSignature
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.steps import Steps
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.pod_groups.member_kinds import MemberKind, Remaining, kinds_of
from pyscheduler.core.pod_groups.room import Floats, members_per_node, relative_room, without_delegated
from pyscheduler.core.pod_groups.steps import StepCounter
from pyscheduler.core.preemption.dry_run import depends_on_own_row
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.kernels import Rows

BACKTRACKS = 256
"""Number of placements in addition to one for each member."""
_ALTERNATIVES = 4
"""Number of nodes that are tried for a member."""
_DOMAINS = 32
"""Number of nodes that are tried for a member that decides on the domain of others."""
_NO_ROWS: Rows = np.empty(0, np.intp)
_SKIPPED = -1
"""Alternative to all nodes: leave the member out, if the group does not need it."""


class MemberPlacement(Protocol):
    """Operations of the search that the members are placed by."""

    @property
    def placed(self) -> list[AssumedPod]:
        """Members with a node, in the order in which they were assumed."""

    @property
    def within(self) -> Mask | None:
        """Mask of the rows to place members on; None: all."""

    def place(self, queued: QueuedPod, row: int | None = None) -> Failure | None:
        """Assume a member on the node of a row. Return why that failed, or None."""

    def forget(self, assumed: AssumedPod) -> None:
        """Forget a placed member."""

    def feasible_rows(self, queued: QueuedPod) -> Rows | Diagnosis:
        """Return the rows of the nodes that fit a member, or why none does."""

    def is_short(self, remaining: Collection[QueuedPod]) -> bool:
        """Return True if the group lacks members even if all of the remaining ones are placed."""


@dataclass(eq=False)
class _Choice:
    """Node of one member, and the rows that may be tried instead."""

    kind: MemberKind
    queued: QueuedPod
    rows: list[int]
    """In the order in which they are tried."""
    followers: Sequence[MemberKind]
    """Kinds that are placed in the domain of this member."""
    tries: int
    row: int = _SKIPPED
    stuck: int = 0
    """Bits of the kinds that had no node after this choice."""


class Backtracking:
    """Search for nodes of the members of one group."""

    def __init__(self, context: Context, placement: MemberPlacement, members: Sequence[QueuedPod]) -> None:
        """Create the search; of kinds that are equally scarce, the first are placed first."""
        self._context = context
        self._state = context.state
        self._placement = placement
        self._left = len(members) + BACKTRACKS
        self._choices: list[_Choice] = []
        self._step = StepCounter()
        self._fits = np.zeros(len(self._state), np.uint64)
        """Kinds of which a member fits on each row before any is placed, as bits."""
        self._scarcity: dict[int, float] = {}
        self._with_domain_rules = 0
        self._followers: dict[PodSignature, list[MemberKind]] = {}
        self._kinds = kinds_of(members)
        self._attracted: list[MemberKind] = []
        """Kinds with required affinity."""
        self._first_incomplete = 0
        """Position of the first kind of which not all members have been chosen."""
        self._incomplete = Counter(kind.bit for kind in self._kinds)
        """Number of such kinds by bit."""
        self._remaining = Remaining(self._kinds, len(members))
        self._fits_of_class, self._class_of_row = np.empty(0, np.uint64), np.empty(0, np.intp)
        """Distinct values of `_fits`, and the index of that of each row."""

    def _sort_kinds(self) -> Steps[None]:
        """Find the places of all kinds, and sort the kinds by them."""
        for kind in self._kinds:
            yield from self._step.pause()
            self._step.work += 1
            self._find_places(kind)
        self._kinds.sort(key=lambda kind: -kind.scarcity)
        self._attracted = [kind for kind in self._kinds if kind.selectors]
        self._fits_of_class, self._class_of_row = np.unique(self._fits, return_inverse=True)
        for i, kind in enumerate(self._kinds):
            kind.position = i
            for queued in kind.members:
                for follower in self._followers_of(queued.pod.signature):
                    follower.awaited += follower is not kind

    def _find_places(self, kind: MemberKind) -> None:
        """Find the rows that fit members of a kind before any is placed, or that lack only pods that they follow."""
        table, first = self._state.table(), kind.members[0]
        places = members_per_node(table, self._requests_of(first.pod))
        rows = self._placement.feasible_rows(first)
        if isinstance(rows, Diagnosis):
            rows = self._rows_that_lack_pods(rows, first.pod, places) if kind.keys else _NO_ROWS
        else:
            kind.fits_alone = True
        count = int(places[rows].sum())
        kind.scarcity = len(kind.members) / count if count else np.inf
        self._fits[rows] |= np.uint64(kind.bit)
        self._scarcity[kind.bit] = self._scarcity.get(kind.bit, 0.0) + min(kind.scarcity, len(table))
        self._with_domain_rules |= kind.bit * kind.has_domain_rules

    def _rows_that_lack_pods(self, diagnosis: Diagnosis, pod: Pod, places: Ints) -> Rows:
        """Return the rows with room that only plugins reject which depend on pods elsewhere."""
        filters = self._context.profiles[pod.scheduler_name].filter
        local = {plugin.name for plugin in filters if depends_on_own_row(plugin)}
        names, within = self._state.table().names, self._placement.within
        rows = np.flatnonzero(places if within is None else places * within)
        statuses = ((row, diagnosis.status_of(names[row])) for row in rows.tolist())
        return np.array([row for row, s in statuses if s is not None and s.plugin not in local], np.intp)

    def run(self) -> Steps[list[QueuedPod] | None]:
        """Place enough members. Return those that were left out; None if too few have a node."""
        yield from self._sort_kinds()
        while (choice := self._next()) is not None:
            yield from self._step.pause()
            while not self._take(choice):
                yield from self._step.pause()
                stuck = choice.stuck | choice.kind.bit
                self._count_chosen(choice, -1)
                if self._left <= 0 or not self._go_back(stuck):
                    return None
                choice = self._retract()
                choice.stuck |= stuck
                self._count_chosen(choice, 1)
            self._choices.append(choice)
            self._count_partner(choice, 1)
        return [choice.queued for choice in self._choices if choice.row == _SKIPPED]

    # -- alternatives of a choice ------------------------------------------------------------------------------------

    def _take(self, choice: _Choice) -> bool:
        """Place the member on the next of its rows. Return False if none is left."""
        while choice.rows and self._left > 0 and choice.tries > 0:
            self._left -= 1
            self._step.work += 1
            choice.tries -= 1
            choice.row = choice.rows.pop(self._position(choice))
            if choice.row == _SKIPPED or self._placement.place(choice.queued, choice.row) is None:
                return True
        if choice.rows and choice.rows[-1] == _SKIPPED:
            choice.rows, choice.row = [], _SKIPPED
            return True
        return False

    def _position(self, choice: _Choice) -> int:
        """Return the position of the row to try next: the first that none of the kinds without a node fits on."""
        if not choice.stuck or choice.followers:
            return 0
        rows = np.array(choice.rows)
        is_free = (rows != _SKIPPED) & ((self._fits[rows] & np.uint64(choice.stuck)) == 0)
        return int(is_free.argmax())

    def _go_back(self, stuck: int) -> bool:
        """Undo the choices after the last one that may have taken a node from these kinds. Return False if none is."""
        while self._choices and not self._may_have_taken(self._choices[-1], stuck):
            self._retract()
        return bool(self._choices)

    def _may_have_taken(self, choice: _Choice, stuck: int) -> bool:
        if choice.row == _SKIPPED or choice.kind.has_domain_rules or stuck & self._with_domain_rules:
            return True
        if any(kind.bit & stuck for kind in choice.followers):
            return True
        return bool(int(self._fits[choice.row]) & stuck & ~choice.kind.bit)

    def _retract(self) -> _Choice:
        """Undo the last choice."""
        choice = self._choices.pop()
        if choice.row != _SKIPPED:
            self._placement.forget(self._placement.placed[-1])
        self._count_partner(choice, -1)
        self._count_chosen(choice, -1)
        return choice

    def _count_chosen(self, choice: _Choice, count: int) -> None:
        kind = choice.kind
        kind.chosen += count
        self._remaining.count -= count
        if count < 0 and kind.chosen == len(kind.members) - 1:
            self._incomplete[kind.bit] += 1
            self._first_incomplete = min(self._first_incomplete, kind.position)
        elif kind.is_complete:
            self._incomplete[kind.bit] -= 1
            while self._first_incomplete < len(self._kinds) and self._kinds[self._first_incomplete].is_complete:
                self._first_incomplete += 1
        for kind in self._followers_of(choice.queued.pod.signature):
            kind.awaited -= count if kind is not choice.kind else 0

    def _count_partner(self, choice: _Choice, count: int) -> None:
        if choice.row != _SKIPPED:
            for kind in self._followers_of(choice.queued.pod.signature):
                kind.partners += count

    def _requests_of(self, pod: Pod) -> Mapping[str, int]:
        """Return what a pod requests of its node."""
        return without_delegated(self._context.handle, pod.requests.effective)

    def _followers_of(self, signature: PodSignature) -> list[MemberKind]:
        """Return the kinds with required affinity to pods of this signature."""
        followers = self._followers.get(signature)
        if followers is None:
            followers = [kind for kind in self._attracted if kind.has_affinity_to(signature)]
            self._followers[signature] = followers
        return followers

    # -- a further choice --------------------------------------------------------------------------------------------

    def _next(self) -> _Choice | None:
        """Return the choice for another member; None if all have been chosen."""
        waiting: MemberKind | None = None
        positions: Iterable[int] = range(self._first_incomplete, len(self._kinds))
        if self._attracted:
            # First those that follow placed members: others may take their domain.
            positions = sorted(positions, key=lambda i: not self._kinds[i].partners)
        for i in positions:
            kind = self._kinds[i]
            if kind.is_complete:
                continue
            rows = self._feasible_rows(kind) if kind.fits_alone or kind.partners or not kind.keys else _NO_ROWS
            if len(rows) or not kind.awaited:
                return self._choice(kind, rows)
            waiting = waiting or kind
        return None if waiting is None else self._choice(waiting, _NO_ROWS)

    def _feasible_rows(self, kind: MemberKind) -> Rows:
        feasible = self._placement.feasible_rows(kind.members[kind.chosen])
        return _NO_ROWS if isinstance(feasible, Diagnosis) else feasible

    def _choice(self, kind: MemberKind, feasible: Rows) -> _Choice:
        queued = kind.members[kind.chosen]
        attracted = self._followers_of(queued.pod.signature)
        followers = [each for each in attracted if not each.chosen and not each.partners]
        rows = self._rank(kind, queued.pod, feasible, followers)
        choice = _Choice(kind, queued, rows, followers, _DOMAINS if followers else _ALTERNATIVES)
        self._count_chosen(choice, 1)
        if not self._placement.is_short(self._remaining):
            rows.append(_SKIPPED)
        return choice

    def _rank(self, kind: MemberKind, pod: Pod, rows: Rows, followers: Sequence[MemberKind]) -> list[int]:
        """Return a row of each class of nodes, the one to try first in front, given the rows that fit the pod."""
        others = sum(bit for bit, count in self._incomplete.items() if count) & ~kind.bit
        columns = [self._fits[rows] & np.uint64(others), relative_room(self._state.table(rows), pod)]
        columns.append(self._demand_of(others)[rows])
        in_domain, served = np.zeros(len(rows)), np.zeros(len(rows))
        for follower in followers:
            for key in sorted(follower.keys):
                domains, places = self._domain_places(follower, key)
                columns.insert(0, domains[rows])
                in_domain += places[rows]
                served += np.minimum(places[rows], len(follower.members))
        if followers:
            columns += [in_domain, -served]
        order = np.lexsort(columns)  # the last column counts first
        ordered = np.stack(columns)[:, order]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        return [int(row) for row in rows[order[is_first]]]

    def _domain_places(self, kind: MemberKind, key: str) -> tuple[Ints, Ints]:
        """Return the domain of each row, and the number of members that it has room for now."""
        table = self._state.table()
        domains = table.topology(key).ids
        most = members_per_node(table, self._requests_of(kind.members[0].pod))
        room = np.where(self._fits & np.uint64(kind.bit), most, 0)
        places = np.bincount(domains, room).astype(np.int64)
        places[NO_DOMAIN] = 0
        return domains, places[domains]

    def _demand_of(self, kinds: int) -> Floats:
        """Return how much the members of these kinds depend on each row."""
        demand = np.zeros(len(self._fits_of_class))
        for bit, scarcity in self._scarcity.items():
            if bit & kinds:
                demand += scarcity * (self._fits_of_class & np.uint64(bit)).astype(np.bool_)
        return demand[self._class_of_row]
