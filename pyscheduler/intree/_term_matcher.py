"""Many selector terms evaluated together, over columns of labels.

A tenant may write tens of thousands of terms into one pod. Evaluated one by one they cost terms times rows; here each
distinct requirement becomes a bitmap of the rows that satisfy it, found from the values that rows have, and a term is
the AND of some bitmaps. `NodeTerm.matches` and `Selector.matches` are the specification.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, Mask, NodeTable, NodeTerm, Requirement
from pyscheduler.api.match import SelectorError, int64
from pyscheduler.api.topology import MISSING, Domains

FEW = 16
"""Requirements up to which evaluating one after the other is as quick."""
SMALL = 2048
"""Bytes of a pod that cannot state many."""
NODE_NAME = "\0metadata.name"
"""Stands for the field metadata.name among label keys; no label can have it."""

Bits = NDArray[np.uint8]
"""A bitmap of rows in each row: bit r of it is set where row r of the labels holds."""
Picks = NDArray[np.intp]
_ZEROS, _ONES = 0, 1
"""The bitmaps of requirements that hold nowhere and everywhere."""
_WINDOW = 8192
"""Rows evaluated at once: what bitmaps take does not grow with the cluster."""
_BATCH = 1 << 12
"""Bitmaps gathered at once."""
_SHORT = 4
"""Values up to which a requirement is found by each of them."""
NODE_BLOCK = 256
"""Nodes over which evaluating one of many requirements costs as much as evaluating one alone on one node."""
POD_BLOCK = 32
"""Nodes that count as one for requirements on placed pods, which are compiled at greater cost."""
_COUNTED = 255
"""Bitmaps counted at once: as many as a byte can count."""


def are_many_requirements(requirements: Iterable[Requirement]) -> bool:
    """Return True if evaluating them one after the other takes long: they are more than `FEW`, or name many values."""
    work = 0
    for requirement in requirements:
        work += 1 + len(requirement.values) // FEW
        if work > FEW:
            return True
    return False


class LabelRows(Protocol):
    """Rows with labels."""

    def __len__(self) -> int: ...

    @property
    def keys(self) -> Collection[str]:
        """The keys that any of them has; more do no harm."""

    def column(self, key: str) -> Domains:
        """The values of a label as small ints."""


class NodeRows:
    """The nodes of a table, their names included."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def keys(self) -> Collection[str]:
        return {NODE_NAME, *self._nodes.label_keys}

    def column(self, key: str) -> Domains:
        return _domains(self._nodes.names) if key == NODE_NAME else self._nodes.topology(key)


class MappingRows:
    """Rows given as one mapping each."""

    def __init__(self, labels: Sequence[Mapping[str, str]]) -> None:
        self._labels = labels
        self._keys = frozenset().union(*labels)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def keys(self) -> Collection[str]:
        return self._keys

    def column(self, key: str) -> Domains:
        return _domains([labels.get(key) for labels in self._labels])


def _domains(values: Sequence[str | None]) -> Domains:
    known: dict[str | None, int] = {None: MISSING}
    ids = np.fromiter((known.setdefault(value, len(known)) for value in values), np.intp, len(values))
    return Domains(ids, known)


class _Values(NamedTuple):
    """The values that some rows have of one label."""

    places: Mapping[str, int]
    """The place of each value in `bits`."""
    bits: Bits
    """The rows that have each value; in place 0 those that lack the label."""

    @staticmethod
    def of(domains: Domains, window: slice) -> _Values:
        ids = np.append(domains.ids[window], MISSING)
        used, places = np.unique(ids, return_inverse=True)
        rows = np.arange(len(ids) - 1)
        bits = np.zeros((len(used), _width(len(rows))), np.uint8)
        np.bitwise_or.at(bits, (places[:-1], rows >> 3), (128 >> (rows & 7)).astype(np.uint8))
        known = np.fromiter(domains.known.values(), np.intp, len(domains.known))
        found = np.minimum(np.searchsorted(used, known), len(used) - 1)
        here = (used[found] == known) & (known != MISSING)
        named = zip(domains.known, found.tolist(), here.tolist(), strict=True)
        return _Values({value: place for value, place, is_here in named if is_here and value is not None}, bits)


class _Pool:
    """All bitmaps of a window."""

    def __init__(self, rows: int) -> None:
        width = _width(rows)
        self._blocks = [np.zeros((1, width), np.uint8), np.full((1, width), 255, np.uint8)]
        self._size = 2

    def add(self, bits: Bits) -> int:
        """Keep some bitmaps; the place of the first."""
        self._blocks.append(bits)
        self._size += len(bits)
        return self._size - len(bits)

    def joined(self) -> Bits:
        return np.concatenate(self._blocks)


class _OnKey:
    """The requirements on one label, by operator; `number` is that of a requirement in its matcher."""

    def __init__(self) -> None:
        self._exists: list[int] = []
        self._lacks: list[int] = []
        self._listed: dict[str, list[int]] = {}
        """In and NotIn of few values, by each of these."""
        self._long: list[tuple[int, tuple[str, ...]]] = []
        """In and NotIn of many values."""
        self._bounds: dict[str, list[tuple[int, int]]] = {"Gt": [], "Lt": []}
        """(bound, number)"""

    def add(self, number: int, requirement: Requirement) -> None:
        operator, values = requirement.operator, requirement.values
        if operator in ("In", "NotIn"):
            if len(values) > _SHORT:
                self._long.append((number, values))
                return
            for value in {*values}:
                self._listed.setdefault(value, []).append(number)
        elif operator in ("Exists", "DoesNotExist"):
            (self._exists if operator == "Exists" else self._lacks).append(number)
        elif operator in ("Gt", "Lt"):
            bound = int64(values[0]) if len(values) == 1 else None
            if bound is not None:  # else it holds nowhere
                self._bounds[operator].append((bound, number))
        else:
            raise SelectorError(f"{operator!r} is not a selector operator")

    def find(self, values: _Values, negated: Mask, pool: _Pool, bitmaps: Picks) -> None:
        """Write down the bitmap of each requirement that depends on the row."""
        first = pool.add(values.bits)
        bitmaps[self._lacks] = first
        if self._exists:
            bitmaps[self._exists] = pool.add(~values.bits[:1])
        self._find_listed(values, negated, pool, bitmaps, first)
        if self._bounds["Gt"] or self._bounds["Lt"]:
            self._find_bounds(values, pool, bitmaps)

    def _find_listed(self, values: _Values, negated: Mask, pool: _Pool, bitmaps: Picks, first: int) -> None:
        pairs = np.array([*self._listing(values.places)], np.intp).reshape(-1, 2)
        if not len(pairs):
            return
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        numbers, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        unlike = negated[numbers]
        one = counts == 1
        bitmaps[numbers[one & ~unlike]] = first + pairs[starts[one & ~unlike], 1]
        if np.count_nonzero(one & unlike):
            bitmaps[numbers[one & unlike]] = pool.add(~values.bits) + pairs[starts[one & unlike], 1]
        if not one.all():
            several = np.repeat(~one, counts)
            joined = [bits for _, bits in _fold(np.bitwise_or, values.bits, pairs[several, 1], counts[~one])]
            bits = np.concatenate(joined)
            bits[unlike[~one]] ^= 255
            bitmaps[numbers[~one]] = pool.add(bits) + np.arange(len(bits))

    def _listing(self, places: Mapping[str, int]) -> Iterator[tuple[int, int]]:
        """Each In and NotIn with each of its values that rows have, as (number, place)."""
        for value in places.keys() & self._listed.keys():
            place = places[value]
            yield from ((number, place) for number in self._listed[value])
        for number, listed in self._long:
            if len(places) <= _SHORT:
                yield from ((number, place) for value, place in places.items() if value in listed)
            else:
                yield from ((number, places[value]) for value in places.keys() & {*listed})

    def _find_bounds(self, values: _Values, pool: _Pool, bitmaps: Picks) -> None:
        """Gt and Lt: the rows with a number beyond the bound are all from one place on, once sorted."""
        parsed = [(int64(value), place) for value, place in values.places.items()]
        ascending = sorted((parsed_as, place) for parsed_as, place in parsed if parsed_as is not None)
        sorted_numbers = np.array([parsed_as for parsed_as, _ in ascending], np.int64)
        bits = values.bits[[place for _, place in ascending]]
        none = np.zeros((1, values.bits.shape[1]), np.uint8)
        sides: dict[str, Literal["left", "right"]] = {"Gt": "right", "Lt": "left"}
        for operator, side in sides.items():
            bounds = self._bounds[operator]
            if not bounds:
                continue
            if operator == "Gt":
                beyond = np.concatenate((np.bitwise_or.accumulate(bits[::-1])[::-1], none))
            else:
                beyond = np.concatenate((none, np.bitwise_or.accumulate(bits)))
            where = np.searchsorted(sorted_numbers, [bound for bound, _ in bounds], side)
            bitmaps[[number for _, number in bounds]] = pool.add(beyond) + where


class TermMatcher:
    """Some terms, each the conjunction of its requirements; one without any holds everywhere."""

    def __init__(self, terms: Iterable[Sequence[Requirement]]) -> None:
        numbers: dict[Requirement | None, int] = {None: 0}
        picks: list[int] = []
        lengths: list[int] = []
        for term in terms:
            picks += [numbers.setdefault(requirement, len(numbers)) for requirement in term] or [0]
            lengths.append(len(term) or 1)
        self._picks: Picks = np.array(picks, np.int32).astype(np.intp)
        self._lengths: Picks = np.array(lengths, np.intp)
        self._negated = np.array([r is None or r.operator in ("NotIn", "DoesNotExist") for r in numbers], np.bool_)
        self._stated: dict[str, list[tuple[int, Requirement]]] = {}
        for requirement, number in numbers.items():
            if requirement is not None:
                self._stated.setdefault(requirement.key, []).append((number, requirement))
        self._compiled: dict[str, _OnKey] = {}
        """By key; made when rows first have it, for a pod may state fifty thousand keys that none has."""

    @staticmethod
    def of_nodes(terms: Iterable[NodeTerm]) -> TermMatcher:
        """That of the terms of a node selector: each that is empty matches nothing."""
        return TermMatcher(
            (*term.labels, *(Requirement(NODE_NAME, r.operator, r.values) for r in term.names))
            for term in terms
            if term.labels or term.names
        )

    @property
    def requirements(self) -> int:
        """Number of requirements in all terms."""
        return len(self._picks)

    def any(self, rows: LabelRows) -> Mask:
        """Which rows satisfy at least one term."""
        mask = np.zeros(len(rows), np.bool_)
        for window, evaluated in self._windows(rows):
            joined = np.zeros(_width(window.stop - window.start), np.uint8)
            for _, bits in evaluated:
                joined |= np.bitwise_or.reduce(bits, axis=0)
            mask[window] = np.unpackbits(joined, count=window.stop - window.start)
        return mask

    def total(self, rows: LabelRows, weights: Ints) -> Ints:
        """The sum of the weights of the terms that each row satisfies."""
        totals = np.zeros(len(rows), np.int64)
        for window, evaluated in self._windows(rows):
            for terms, bits in evaluated:
                totals[window] += _weighed(bits, weights[terms], window.stop - window.start)
        return totals

    def _on_key(self, key: str) -> _OnKey:
        known = self._compiled.get(key)
        if known is None:
            known = self._compiled[key] = _OnKey()
            for number, requirement in self._stated[key]:
                known.add(number, requirement)
        return known

    def _windows(self, rows: LabelRows) -> Iterator[tuple[slice, Iterator[tuple[Picks, Bits]]]]:
        """Some rows after the other, with the terms that any of them may satisfy and the bitmaps of those."""
        few, many = sorted((rows.keys, self._stated.keys()), key=len)
        columns = {key: rows.column(key) for key in few if key in many}
        for start in range(0, len(rows), _WINDOW):
            window = slice(start, min(start + _WINDOW, len(rows)))
            yield window, self._evaluated(columns, window)

    def _evaluated(self, columns: Mapping[str, Domains], window: slice) -> Iterator[tuple[Picks, Bits]]:
        pool = _Pool(window.stop - window.start)
        bitmaps = self._negated.astype(np.intp)  # what holds of a row without the label: _ZEROS or _ONES
        for key, domains in columns.items():
            self._on_key(key).find(_Values.of(domains, window), self._negated, pool, bitmaps)
        picks = bitmaps[self._picks]
        starts = np.cumsum(self._lengths) - self._lengths
        possible = np.minimum.reduceat(picks, starts) != _ZEROS if len(starts) else np.zeros(0, np.bool_)
        terms = np.flatnonzero(possible)
        picks = picks[np.repeat(possible, self._lengths)]
        for batch, bits in _fold(np.bitwise_and, pool.joined(), picks, self._lengths[terms]):
            yield terms[batch], bits


def _width(rows: int) -> int:
    """Bytes of a bitmap."""
    return (rows + 7) // 8


def _fold(join: np.ufunc, bitmaps: Bits, picks: Picks, lengths: Picks) -> Iterator[tuple[slice, Bits]]:
    """Join the bitmaps picked for each of several results, which have so many each; some results at a time."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = ends[start] - lengths[start]
        stop = max(start + 1, int(np.searchsorted(ends, before + _BATCH, "right")))
        chosen = bitmaps[picks[before : ends[stop - 1]]]
        whole = slice(start, stop)
        alone = len(chosen) == stop - start
        yield whole, chosen if alone else join.reduceat(chosen, ends[whole] - lengths[whole] - before, axis=0)
        start = stop


def _weighed(bits: Bits, weights: Ints, rows: int) -> Ints:
    """The sum of the weights of the bitmaps that each row is in."""
    total = np.zeros(rows, np.int64)
    for weight in np.unique(weights).tolist():
        alike = bits[weights == weight]
        for start in range(0, len(alike), _COUNTED):
            counts = np.unpackbits(alike[start : start + _COUNTED], axis=1, count=rows).sum(axis=0, dtype=np.uint8)
            total += counts.astype(np.int64) * weight
    return total
