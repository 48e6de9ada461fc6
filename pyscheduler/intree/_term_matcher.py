"""Evaluation of many selector terms at once, over columns of labels.

A tenant may write tens of thousands of terms into one pod, and evaluating them one by one costs terms times rows. Here
each distinct requirement becomes a bitmap of the rows that satisfy it, computed from the distinct values of the rows,
and a term is the AND of some bitmaps. `NodeTerm.matches` and `Selector.matches` are the specification.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Ints, Mask, NodeTable, Requirement
from pyscheduler.api.match import SelectorError, can_match, int64
from pyscheduler.api.objects import LabelSelectorRequirement, NodeSelectorTerm
from pyscheduler.api.topology import NO_DOMAIN, Domains

FEW = 16
"""Number of requirements up to which evaluating them one by one is as fast."""
SMALL = 2048
"""Size in bytes below which a pod cannot have many requirements."""
NODE_NAME = "\0metadata.name"
"""Label key that stands for the field metadata.name; no real label can have it."""

AnyRequirement = Requirement | LabelSelectorRequirement
"""Compiled or as the API object states it: compiling tens of thousands takes longer than evaluating them."""
Bits = NDArray[np.uint8]
"""One bitmap per row; bit r is set if row r of the labels satisfies it."""
Picks = NDArray[np.intp]
_ZEROS, _ONES = 0, 1
"""Indexes of the bitmaps of requirements that hold nowhere and everywhere."""
_ALWAYS = Requirement("\0always", "DoesNotExist")
"""Requirement of terms that have none; no label can have its key."""
_WINDOW = 8192
"""Rows evaluated at once, so that the memory for bitmaps does not grow with the cluster."""
_BATCH = 1 << 12
"""Bitmaps combined at once."""
_FEW_VALUES = 4
"""Number of values up to which a requirement is indexed by each of its values."""
NODE_BLOCK = 256
"""Number of nodes over which one of many requirements costs as much as one requirement alone on one node."""
POD_BLOCK = 32
"""Number of nodes counted as one for requirements on placed pods, which are dearer to compile."""
_COUNTED = 255
"""Bitmaps counted at once, limited by the range of a byte."""


def node_requirements(terms: Iterable[NodeSelectorTerm]) -> list[tuple[AnyRequirement, ...]]:
    """Return the requirements of each nodeSelectorTerm; () for one that matches nothing."""
    return [_requirements_of(term) if can_match(term) else () for term in terms]


def _requirements_of(term: NodeSelectorTerm) -> tuple[AnyRequirement, ...]:
    if not term.match_fields:
        return term.match_expressions or ()
    fields = [Requirement(NODE_NAME, r.operator, r.values or ()) for r in term.match_fields]
    return (*(term.match_expressions or ()), *fields)


def are_many_requirements(requirements: Iterable[Requirement]) -> bool:
    """Return True if evaluating the requirements one by one is slow: more than `FEW`, or many values."""
    work = 0
    for requirement in requirements:
        work += 1 + len(requirement.values) // FEW
        if work > FEW:
            return True
    return False


class LabelRows(Protocol):
    """Rows of labels."""

    def __len__(self) -> int: ...

    @property
    def keys(self) -> Collection[str]:
        """Label keys that any row has; a superset is allowed."""

    def column(self, key: str) -> Domains:
        """Return the values of a label as small ints."""


class NodeRows:
    """The nodes of a table, with their names under the key `NODE_NAME`."""

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
    """Rows from one mapping each."""

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
    known: dict[str | None, int] = {None: NO_DOMAIN}
    ids = np.fromiter((known.setdefault(value, len(known)) for value in values), np.intp, len(values))
    return Domains(ids, known)


class _Values(NamedTuple):
    """Distinct values of one label in a window of rows."""

    places: Mapping[str, int]
    """Index of each value in `bits`."""
    bits: Bits
    """Bitmap of the rows that have each value; index 0 is the rows without the label."""

    @staticmethod
    def of(domains: Domains, window: slice) -> _Values:
        ids = np.append(domains.ids[window], NO_DOMAIN)
        used, places = np.unique(ids, return_inverse=True)
        rows = np.arange(len(ids) - 1)
        bits = np.zeros((len(used), _width(len(rows))), np.uint8)
        np.bitwise_or.at(bits, (places[:-1], rows >> 3), (128 >> (rows & 7)).astype(np.uint8))
        known = np.fromiter(domains.known.values(), np.intp, len(domains.known))
        found = np.minimum(np.searchsorted(used, known), len(used) - 1)
        here = (used[found] == known) & (known != NO_DOMAIN)
        named = zip(domains.known, found.tolist(), here.tolist(), strict=True)
        return _Values({value: place for value, place, is_here in named if is_here and value is not None}, bits)


class _BitmapPool:
    """All bitmaps of a window."""

    def __init__(self, rows: int) -> None:
        width = _width(rows)
        self._blocks = [np.zeros((1, width), np.uint8), np.full((1, width), 255, np.uint8)]
        self._size = 2

    def add(self, bits: Bits) -> int:
        """Add bitmaps and return the index of the first."""
        self._blocks.append(bits)
        self._size += len(bits)
        return self._size - len(bits)

    def joined(self) -> Bits:
        return np.concatenate(self._blocks)


class _KeyRequirements:
    """Requirements on one label, by operator; `number` is the index of a requirement in its matcher."""

    def __init__(self) -> None:
        self._exists: list[int] = []
        self._lacks: list[int] = []
        self._listed: dict[str, list[int]] = {}
        """In and NotIn with few values, by value."""
        self._long: list[tuple[int, tuple[str, ...]]] = []
        """In and NotIn with many values."""
        self._bounds: dict[str, list[tuple[int, int]]] = {"Gt": [], "Lt": []}
        """(bound, number) by operator."""

    def add(self, number: int, requirement: AnyRequirement) -> None:
        operator, values = requirement.operator, requirement.values or ()
        if operator in ("In", "NotIn"):
            if len(values) > _FEW_VALUES:
                self._long.append((number, values))
                return
            for value in {*values}:
                self._listed.setdefault(value, []).append(number)
        elif operator in ("Exists", "DoesNotExist"):
            (self._exists if operator == "Exists" else self._lacks).append(number)
        elif operator in ("Gt", "Lt"):
            bound = int64(values[0]) if len(values) == 1 else None
            if bound is not None:  # otherwise it matches no row
                self._bounds[operator].append((bound, number))
        else:
            raise SelectorError(f"{operator!r} is not a selector operator")

    def find(self, values: _Values, negated: Mask, pool: _BitmapPool, bitmaps: Picks) -> None:
        """Store in `bitmaps` the bitmap of each requirement."""
        first = pool.add(values.bits)
        bitmaps[self._lacks] = first
        if self._exists:
            bitmaps[self._exists] = pool.add(~values.bits[:1])
        self._find_listed(values, negated, pool, bitmaps, first)
        if self._bounds["Gt"] or self._bounds["Lt"]:
            self._find_bounds(values, pool, bitmaps)

    def _find_listed(self, values: _Values, negated: Mask, pool: _BitmapPool, bitmaps: Picks, first: int) -> None:
        pairs = np.array([*self._listing(values.places)], np.intp).reshape(-1, 2)
        if not len(pairs):
            return
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        numbers, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        is_negated = negated[numbers]
        one = counts == 1
        bitmaps[numbers[one & ~is_negated]] = first + pairs[starts[one & ~is_negated], 1]
        if np.count_nonzero(one & is_negated):
            bitmaps[numbers[one & is_negated]] = pool.add(~values.bits) + pairs[starts[one & is_negated], 1]
        if not one.all():
            several = np.repeat(~one, counts)
            joined = [bits for _, bits in _fold(np.bitwise_or, values.bits, pairs[several, 1], counts[~one])]
            bits = np.concatenate(joined)
            bits[is_negated[~one]] ^= 255
            bitmaps[numbers[~one]] = pool.add(bits) + np.arange(len(bits))

    def _listing(self, places: Mapping[str, int]) -> Iterator[tuple[int, int]]:
        """Yield (number, place) for each In and NotIn and each of its values that occurs in the rows."""
        for value in places.keys() & self._listed.keys():
            place = places[value]
            yield from ((number, place) for number in self._listed[value])
        for number, listed in self._long:
            if len(places) <= _FEW_VALUES:
                yield from ((number, place) for value, place in places.items() if value in listed)
            else:
                yield from ((number, places[value]) for value in places.keys() & {*listed})

    def _find_bounds(self, values: _Values, pool: _BitmapPool, bitmaps: Picks) -> None:
        """Store the bitmaps of Gt and Lt. With the values sorted, the rows beyond a bound are a prefix or a suffix."""
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
    """Terms evaluated together, each the AND of its requirements; a term without requirements matches every row."""

    def __init__(self, terms: Iterable[Sequence[AnyRequirement]]) -> None:
        listed = [term or (_ALWAYS,) for term in terms]
        numbers: dict[AnyRequirement, int] = {_ALWAYS: 0}
        picks = [numbers.setdefault(requirement, len(numbers)) for requirement in chain.from_iterable(listed)]
        self._picks: Picks = np.array(picks, np.int32).astype(np.intp)
        self._lengths: Picks = np.array([*map(len, listed)], np.intp)
        self._requirements = [*numbers]
        """Distinct requirements, by number."""
        self._negated = np.array([r.operator in ("NotIn", "DoesNotExist") for r in self._requirements], np.bool_)
        self._keys = frozenset([r.key for r in self._requirements])
        self._compiled: dict[str, _KeyRequirements] = {}
        """By key, compiled when rows first have the key: a pod may name fifty thousand keys that no row has."""

    @property
    def requirements(self) -> int:
        """Number of requirements in all terms."""
        return len(self._picks)

    def any(self, rows: LabelRows) -> Mask:
        """Return the mask of rows that satisfy at least one term."""
        mask = np.zeros(len(rows), np.bool_)
        for window, evaluated in self._windows(rows):
            joined = np.zeros(_width(window.stop - window.start), np.uint8)
            for _, bits in evaluated:
                joined |= np.bitwise_or.reduce(bits, axis=0)
            mask[window] = np.unpackbits(joined, count=window.stop - window.start)
        return mask

    def total(self, rows: LabelRows, weights: Ints) -> Ints:
        """Return the sum of the weights of the terms that each row satisfies."""
        totals = np.zeros(len(rows), np.int64)
        for window, evaluated in self._windows(rows):
            for terms, bits in evaluated:
                totals[window] += _weighed(bits, weights[terms], window.stop - window.start)
        return totals

    def _compile(self, keys: Collection[str]) -> None:
        new = {key: _KeyRequirements() for key in keys if key not in self._compiled}
        if not new:
            return
        for number, requirement in enumerate(self._requirements):
            if requirement.key in new:
                new[requirement.key].add(number, requirement)
        self._compiled |= new

    def _windows(self, rows: LabelRows) -> Iterator[tuple[slice, Iterator[tuple[Picks, Bits]]]]:
        """Yield windows of rows, each with the terms that may match in it and their bitmaps."""
        few, many = sorted((rows.keys, self._keys), key=len)
        columns = {key: rows.column(key) for key in few if key in many}
        self._compile(columns)
        for start in range(0, len(rows), _WINDOW):
            window = slice(start, min(start + _WINDOW, len(rows)))
            yield window, self._evaluated(columns, window)

    def _evaluated(self, columns: Mapping[str, Domains], window: slice) -> Iterator[tuple[Picks, Bits]]:
        pool = _BitmapPool(window.stop - window.start)
        bitmaps = self._negated.astype(np.intp)  # result for a row without the label: _ZEROS or _ONES
        for key, domains in columns.items():
            self._compiled[key].find(_Values.of(domains, window), self._negated, pool, bitmaps)
        terms, picks, lengths = _possible(bitmaps[self._picks], self._lengths)
        for batch, bits in _fold(np.bitwise_and, pool.joined(), picks, lengths):
            yield terms[batch], bits


def _possible(picks: Picks, lengths: Picks) -> tuple[Picks, Picks, Picks]:
    """Return the terms that may match: their indexes, the bitmaps they pick, and the number picked by each.

    A bitmap of ones does not change an AND, so it is dropped unless it is the only one of its term.
    """
    if not len(lengths):
        return lengths, picks, lengths
    starts = np.cumsum(lengths) - lengths
    least = np.minimum.reduceat(picks, starts)
    needed = picks != _ONES
    needed[starts] |= np.maximum.reduceat(picks, starts) == _ONES
    possible = least != _ZEROS
    needed &= np.repeat(possible, lengths)
    return np.flatnonzero(possible), picks[needed], np.add.reduceat(needed, starts, dtype=np.intp)[possible]


def _width(rows: int) -> int:
    """Bytes of a bitmap of that many rows, padded to 64-bit words because combining words is eight times as fast."""
    return (rows + 63) // 64 * 8


def _fold(join: np.ufunc, bitmaps: Bits, picks: Picks, lengths: Picks) -> Iterator[tuple[slice, Bits]]:
    """Combine bitmaps into one per result, a batch of results at a time; `lengths` is the number of bitmaps of each."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = ends[start] - lengths[start]
        stop = max(start + 1, int(np.searchsorted(ends, before + _BATCH, "right")))
        chosen = bitmaps[picks[before : ends[stop - 1]]]
        whole = slice(start, stop)
        if len(chosen) > stop - start:
            starts = ends[whole] - lengths[whole] - before
            chosen = join.reduceat(chosen.view(np.uint64), starts, axis=0).view(np.uint8)
        yield whole, chosen
        start = stop


def _weighed(bits: Bits, weights: Ints, rows: int) -> Ints:
    """Return, for each row, the sum of the weights of the bitmaps that have it set."""
    total = np.zeros(rows, np.int64)
    for weight in np.unique(weights).tolist():
        alike = bits[weights == weight]
        for start in range(0, len(alike), _COUNTED):
            counts = np.unpackbits(alike[start : start + _COUNTED], axis=1, count=rows).sum(axis=0, dtype=np.uint8)
            total += counts.astype(np.int64) * weight
    return total
