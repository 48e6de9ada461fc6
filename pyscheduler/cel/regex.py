"""Matching of regular expressions in time that is linear in the text, as Go's package regexp does.

Python's `re` backtracks, so that a tenant's expression could take exponential time. States of the machine are sets of
positions in the program; transitions are computed once for each character and kept. What is not kept counts as steps of
the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from pyscheduler.cel.limits import spend
from pyscheduler.cel.regex_program import (
    ASSERT,
    BEGIN_LINE,
    BEGIN_TEXT,
    END_LINE,
    END_TEXT,
    JUMP,
    MATCH,
    SPLIT,
    WORD_BOUNDARY,
    Instruction,
)
from pyscheduler.cel.regex_syntax import RegexError, parse_regex

_MAX_TRANSITIONS: Final = 10_000
"""Kept transitions of an expression; then all are forgotten."""
_WORD: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_Positions: TypeAlias = tuple[int, ...]


class _State:
    """A set of positions after a character, with the transitions that are known."""

    __slots__ = ("positions", "previous", "transitions")

    def __init__(self, positions: _Positions, previous: str) -> None:
        self.positions = positions
        self.previous = previous
        """A character that stands for the one before: "" at the start, a newline, "a" for a word, " " for others."""
        self.transitions: dict[str, _State | None] = {}
        """The next state by character, "" for the end of the text; None for a match before that character."""


class Regex:
    """A compiled expression."""

    def __init__(self, program: list[Instruction]) -> None:
        self._program = [*program, (MATCH, 0, 0, None)]
        self._states: dict[tuple[_Positions, str], _State] = {}
        self._transitions = 0

    def search(self, text: str) -> bool:
        """Return True if a part of the text matches."""
        state = self._state((), "")
        for character in text:
            next_state = state.transitions.get(character, state)
            if next_state is state and character not in state.transitions:
                next_state = self._step(state, character)
            if next_state is None:
                return True
            state = next_state
        if "" not in state.transitions:
            self._step(state, "")
        return state.transitions[""] is None

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return the bounds of the first match from `start` on; of several there, the one that Perl prefers."""
        return self._find(text, start)

    def find_all(self, text: str, count: int = -1) -> list[str]:
        """Return at most `count` matches that do not overlap, all if it is negative."""
        result: list[str] = []
        position, previous_end = 0, -1
        while (count < 0 or len(result) < count) and position <= len(text):
            found = self._find(text, position)
            if not found:
                break
            start, end = found
            # An empty match right after a match does not count.
            if end != position or start != previous_end:
                result.append(text[start:end])
            position = end if end != position else position + 1
            previous_end = end
        return result

    def _state(self, positions: _Positions, previous: str) -> _State:
        key = (positions, _kind(previous))
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = _State(*key)
        return state

    def _step(self, state: _State, character: str) -> _State | None:
        """Return the state after a character, None if a match ends before it."""
        if self._transitions >= _MAX_TRANSITIONS:
            self._states.clear()
            self._transitions = 0
        self._transitions += 1
        # A match may begin at each character: position 0 comes last.
        reached = self._follow((*state.positions, 0), state.previous, character)
        next_state: _State | None = None
        if all(self._program[position][0] != MATCH for position in reached):
            moved = (position + 1 for position in reached if character and self._accepts(position, character))
            next_state = self._state(tuple(sorted(set(moved))), character)
        state.transitions[character] = next_state
        return next_state

    def _accepts(self, position: int, character: str) -> bool:
        characters = self._program[position][3]
        return characters is not None and character in characters

    def _follow(self, positions: Iterable[int], previous: str, following: str) -> list[int]:
        """Return the positions that consume a character or match, which are reached without a character, in order."""
        result: list[int] = []
        seen: set[int] = set()
        for position in positions:
            self._reach(position, previous, following, seen, result)
        spend(len(seen))
        return result

    def _reach(self, position: int, previous: str, following: str, seen: set[int], result: list[int]) -> None:
        pending = [position]
        while pending:
            position = pending.pop()
            if position in seen:
                continue
            seen.add(position)
            operation, first, second, _ = self._program[position]
            if operation == SPLIT:
                pending += (position + second, position + first)
            elif operation == JUMP:
                pending.append(position + first)
            elif operation == ASSERT:
                if _holds(first, previous, following):
                    pending.append(position + 1)
            else:
                result.append(position)

    def _find(self, text: str, start: int) -> tuple[int, int] | None:
        threads: list[tuple[int, int]] = []
        found: tuple[int, int] | None = None
        for index in range(start, len(text) + 1):
            if found and not threads:
                break
            previous = text[index - 1] if index else ""
            following = text[index] if index < len(text) else ""
            if not found:
                threads.append((0, index))
            seen: set[int] = set()
            moved: list[tuple[int, int]] = []
            for position, begin in threads:
                reached: list[int] = []
                self._reach(position, previous, following, seen, reached)
                match = self._move(reached, following, begin, moved)
                if match:
                    # What comes later is less preferred.
                    found = (begin, index)
                    break
            spend(len(seen))
            threads = moved
        return found

    def _move(self, reached: list[int], following: str, begin: int, moved: list[tuple[int, int]]) -> bool:
        """Add the threads after a character. Return True at a match, which ends those that are less preferred."""
        for position in reached:
            if self._program[position][0] == MATCH:
                return True
            if following and self._accepts(position, following):
                moved.append((position + 1, begin))
        return False


def _kind(character: str) -> str:
    if character in ("", "\n"):
        return character
    return "a" if character in _WORD else " "


def _holds(condition: int, previous: str, following: str) -> bool:
    """Return True if an assertion holds between two characters; an empty one is the start or end of the text."""
    if condition == BEGIN_TEXT:
        return not previous
    if condition == END_TEXT:
        return not following
    if condition == BEGIN_LINE:
        return previous in ("", "\n")
    if condition == END_LINE:
        return following in ("", "\n")
    is_boundary = (previous in _WORD) != (following in _WORD)
    return is_boundary == (condition == WORD_BOUNDARY)


@lru_cache(maxsize=512)
def compile_regex(pattern: str) -> Regex | str:
    """Return the compiled expression, or Go's error text."""
    try:
        return Regex(parse_regex(pattern).code)
    except RegexError as error:
        return str(error)
