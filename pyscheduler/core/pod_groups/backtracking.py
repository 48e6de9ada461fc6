"""Second search for nodes of a pod group: other nodes for earlier members after a dead end.

    Backtracking.run
        _next        the members with the fewest places first; those that wait for the affinity to others when they fit
        _rank        of the nodes, first those that the remaining members need least, then those with the least room
        _is_to_blame after a dead end, choices that took nothing from the member without a node are not changed

Equal members are interchangeable, and so are nodes that fit the same members, have as much room and are in the same
domain: one of each such class is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from pyscheduler.api.diagnosis import Diagnosis
from pyscheduler.api.nodes import Ints, Mask
from pyscheduler.api.pod import Pod, PodSignature, PodSignatureGroup
from pyscheduler.api.queued import QueuedPod
from pyscheduler.api.topology import NO_DOMAIN
from pyscheduler.core.context import AssumedPod, Context
from pyscheduler.core.pod_groups.room import Floats, members_per_node, relative_room
from pyscheduler.core.preemption.dry_run import depends_on_own_row
from pyscheduler.core.scheduling.failure import Failure
from pyscheduler.kernels import Rows

BACKTRACKS = 256
"""Number of placements in addition to one for each member."""
_ALTERNATIVES = 4
"""Number of nodes that are tried for a member."""
_DOMAINS = 32
"""Number of nodes that are tried for a member that decides on the domain of others."""
_BITS = 52
"""Number of kinds of members with a bit of their own, as many as a float holds exactly; others share one."""
_NO_ROWS: Rows = np.empty(0, np.intp)
_SKIPPED = -1
"""Alternative to all nodes: leave the member out, if the group does not need it."""


class Placement(Protocol):
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

    def is_short(self, remaining: Sequence[QueuedPod]) -> bool:
        """Return True if the group lacks members even if all of the remaining ones are placed."""


@dataclass(eq=False)
class _Template:
    """Members of one template: they fit the same nodes, but for rules about labels and claims."""

    members: list[QueuedPod]
    keys: frozenset[str]
    """Topology keys of the required pod affinity."""
    is_spread: bool
    bit: int = 0
    places: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """Number of members that each row has room for, before any is placed."""
    chosen: int = 0
    """Number of members with a node, or left out."""
    waits: int = -1
    """Templates with chosen members when no node did fit last, as bits; -1: unknown."""

    @property
    def is_complete(self) -> bool:
        return self.chosen == len(self.members)

    @property
    def scarcity(self) -> float:
        """Share of the places that the members take."""
        places = int(self.places.sum())
        return len(self.members) / places if places else np.inf

    @property
    def decides_domain(self) -> bool:
        """True if the domain that the members have affinity to may be chosen yet."""
        return bool(self.keys) and not self.chosen


@dataclass(eq=False)
class _Choice:
    """Node of one member, and the rows that may be tried instead."""

    template: _Template
    queued: QueuedPod
    rows: list[int]
    """In the order in which they are tried."""
    tries: int
    decides_domain: bool
    row: int = _SKIPPED
    stuck: int = 0
    """Bits of the templates that had no node after this choice."""


class Backtracking:
    """Search for nodes of the members of one group."""

    def __init__(self, context: Context, placement: Placement, members: Sequence[QueuedPod]) -> None:
        """Create the search; of members that are equally scarce, the first are placed first."""
        self._state = context.state
        self._placement = placement
        self._left = len(members) + BACKTRACKS
        self._choices: list[_Choice] = []
        self._fits = np.zeros(len(self._state), np.uint64)
        """Templates of which a member fits on each row before any is placed, as bits."""
        self._scarcity: dict[int, float] = {}
        self._demand: tuple[int, Floats] = 0, np.zeros(len(self._state))
        self._local = {
            name: {plugin.name for plugin in context.profiles[name].filter if depends_on_own_row(plugin)}
            for name in {queued.pod.scheduler_name for queued in members}
        }
        by_kind: dict[PodSignature | PodSignatureGroup, list[QueuedPod]] = {}
        for queued in members:
            by_kind.setdefault(_kind(queued.pod.signature), []).append(queued)
        self._templates = [self._template(i, each) for i, each in enumerate(by_kind.values())]
        self._templates.sort(key=lambda template: -template.scarcity)
        self._spread = 0
        for template in self._templates:
            self._spread |= template.bit * template.is_spread

    def _template(self, i: int, members: list[QueuedPod]) -> _Template:
        pod = members[0].pod
        template = _Template(members, affinity_keys(pod.signature), _domain_rules(pod.signature) > 0, 1 << i % _BITS)
        table = self._state.table()
        places = members_per_node(table, pod)
        rows = self._placement.feasible_rows(members[0])
        if isinstance(rows, Diagnosis):
            rows = self._rows_that_lack_pods(rows, pod, places) if template.keys else _NO_ROWS
        fits = np.zeros(len(table), np.bool_)
        fits[rows] = True
        template.places = np.where(fits, places, 0)
        self._fits[fits] |= np.uint64(template.bit)
        self._scarcity[template.bit] = self._scarcity.get(template.bit, 0.0) + min(template.scarcity, len(table))
        return template

    def _rows_that_lack_pods(self, diagnosis: Diagnosis, pod: Pod, places: Ints) -> Rows:
        """Return the rows with room that only plugins reject which depend on pods elsewhere."""
        local, names, within = self._local[pod.scheduler_name], self._state.table().names, self._placement.within
        rows = np.flatnonzero(places if within is None else places * within)
        statuses = ((row, diagnosis.status_of(names[row])) for row in rows.tolist())
        return np.array([row for row, s in statuses if s is not None and s.plugin not in local], np.intp)

    def run(self) -> list[QueuedPod] | None:
        """Place enough members. Return those that were left out; None if too few have a node."""
        while (choice := self._next()) is not None:
            while not self._take(choice):
                choice.template.chosen -= 1
                stuck = choice.stuck | choice.template.bit
                if self._left <= 0 or not self._go_back(stuck):
                    return None
                choice = self._retract()
                choice.stuck |= stuck
                choice.template.chosen += 1
            self._choices.append(choice)
        return [choice.queued for choice in self._choices if choice.row == _SKIPPED]

    def _take(self, choice: _Choice) -> bool:
        """Place the member on the next of its rows. Return False if none is left."""
        while choice.rows and self._left > 0 and choice.tries > 0:
            self._left -= 1
            choice.tries -= 1
            choice.row = choice.rows.pop(self._position(choice))
            if choice.row == _SKIPPED or self._placement.place(choice.queued, choice.row) is None:
                return True
        if choice.rows and choice.rows[-1] == _SKIPPED:
            choice.rows, choice.row = [], _SKIPPED
            return True
        return False

    def _position(self, choice: _Choice) -> int:
        """Return the position of the row to try next, first one that no template without a node fits on."""
        if not choice.stuck or choice.decides_domain:
            return 0
        rows = np.array(choice.rows)
        usable = (self._fits[rows] & np.uint64(choice.stuck)).astype(np.bool_) & (rows != _SKIPPED)
        i = int(usable.argmin())
        return 0 if usable[i] or rows[i] == _SKIPPED else i

    def _go_back(self, stuck: int) -> bool:
        """Undo the choices after the last one that may have taken a node from these templates. Return False if none."""
        while self._choices and not self._is_to_blame(self._choices[-1], stuck):
            self._retract()
        return bool(self._choices)

    def _is_to_blame(self, choice: _Choice, stuck: int) -> bool:
        if choice.row == _SKIPPED or choice.decides_domain or choice.template.is_spread or stuck & self._spread:
            return True
        return bool(int(self._fits[choice.row]) & stuck & ~choice.template.bit)

    def _retract(self) -> _Choice:
        choice = self._choices.pop()
        if choice.row != _SKIPPED:
            self._placement.forget(self._placement.placed[-1])
        choice.template.chosen -= 1
        for template in self._templates:
            template.waits = -1
        return choice

    def _next(self) -> _Choice | None:
        """Return the choice for another member; None if all have been chosen."""
        started = sum({template.bit for template in self._templates if template.chosen})
        waiting: list[_Template] = []
        for template in self._templates:
            if template.is_complete:
                continue
            rows = self._rows_of_next(template) if template.waits != started else _NO_ROWS
            if len(rows) or not template.keys:
                return self._choice(template, rows)
            template.waits = started
            waiting.append(template)
        for template in waiting:
            if len(rows := self._rows_of_next(template)):
                return self._choice(template, rows)
        return self._choice(waiting[0], _NO_ROWS) if waiting else None

    def _rows_of_next(self, template: _Template) -> Rows:
        feasible = self._placement.feasible_rows(template.members[template.chosen])
        return _NO_ROWS if isinstance(feasible, Diagnosis) else feasible

    def _choice(self, template: _Template, feasible: Rows) -> _Choice:
        queued = template.members[template.chosen]
        decides = any(each.decides_domain for each in self._templates)
        rows = self._rank(template, queued.pod, feasible)
        template.chosen += 1
        if not self._placement.is_short([*self._remaining()]):
            rows.append(_SKIPPED)
        return _Choice(template, queued, rows, _DOMAINS if decides else _ALTERNATIVES, decides)

    def _remaining(self) -> Iterator[QueuedPod]:
        for template in self._templates:
            yield from template.members[template.chosen :]

    def _rank(self, template: _Template, pod: Pod, rows: Rows) -> list[int]:
        """Return a row of each class of nodes, the one to try first in front, given the rows that fit the pod."""
        others = 0
        for each in self._templates:
            others |= each.bit * (not each.is_complete)
        others &= ~template.bit
        columns = [self._fits[rows] & np.uint64(others), relative_room(self._state.table(rows), pod)]
        columns.append(self._demand_of(others)[rows])
        in_domain, served = np.zeros(len(rows)), np.zeros(len(rows))
        for each in self._templates:
            for key in sorted(each.keys) if each.decides_domain else ():
                domains, places = self._domain_places(each, key)
                columns.insert(0, domains[rows])
                in_domain += places[rows]
                served += np.minimum(places[rows], len(each.members))
        columns += [in_domain, -served]
        order = np.lexsort(columns)  # the last column counts first
        ordered = np.stack(columns)[:, order]
        is_first = np.ones(len(rows), np.bool_)
        is_first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        return [int(row) for row in rows[order[is_first]]]

    def _domain_places(self, template: _Template, key: str) -> tuple[Ints, Ints]:
        """Return the domain of each row, and the number of members that it has room for."""
        domains = self._state.table().topology(key).ids
        places = np.bincount(domains, template.places).astype(np.int64)
        places[NO_DOMAIN] = 0
        return domains, places[domains]

    def _demand_of(self, templates: int) -> Floats:
        """Return how much the members of these templates depend on each row."""
        if self._demand[0] != templates:
            demand = np.zeros(len(self._fits))
            for bit, scarcity in self._scarcity.items():
                if bit & templates:
                    demand += scarcity * (self._fits & np.uint64(bit)).astype(np.bool_)
            self._demand = templates, demand
        return self._demand[1]


def affinity_keys(signature: PodSignature) -> frozenset[str]:
    """Return the topology keys of the required pod affinity."""
    affinity = signature.affinity.pod_affinity
    terms = (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()
    return frozenset(term.topology_key for term in terms)


def may_fit_in_another_way(members: Iterable[PodSignature]) -> bool:
    """Return True if other nodes for some members may leave room for more of them.

    Equal members take the same from any node. Where they are decides only with required affinity to one another, and
    with several rules about domains: one alone allows as many whichever domain comes first.
    """
    signatures = {*members}
    return (
        len({*map(_kind, signatures)}) > 1
        or any(map(affinity_keys, signatures))
        or max(map(_domain_rules, signatures)) > 1
    )


def _kind(signature: PodSignature) -> PodSignature | PodSignatureGroup:
    """Return what the signatures of interchangeable members share: all but labels and annotations."""
    return signature.template if signature.spec is signature.template.spec else signature


def _domain_rules(signature: PodSignature) -> int:
    """Return the number of rules that exclude whole domains because of pods in them."""
    affinity = signature.affinity.pod_anti_affinity
    terms = (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()
    spread = signature.spec.topology_spread_constraints or ()
    return len(terms) + sum(each.when_unsatisfiable == "DoNotSchedule" for each in spread)
