"""Programs of regular expressions: code for a machine that follows all alternatives at once.

Jumps are relative, so that a repetition is a copy of the code. Alternatives are in the order of preference, as in Perl.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from pyscheduler.cel.regex_classes import CharacterClass

CHARACTER: Final = 0
SPLIT: Final = 1
JUMP: Final = 2
ASSERT: Final = 3
MATCH: Final = 4

BEGIN_TEXT: Final = 0
END_TEXT: Final = 1
BEGIN_LINE: Final = 2
END_LINE: Final = 3
WORD_BOUNDARY: Final = 4
NO_WORD_BOUNDARY: Final = 5

CharacterSet: TypeAlias = frozenset[str] | CharacterClass
Instruction: TypeAlias = tuple[int, int, int, CharacterSet | None]
"""Operation; for SPLIT the preferred and the other distance, for JUMP the distance, for ASSERT the condition; the set
of characters of CHARACTER."""

_STEP: Final = 1
UNLIMITED: Final = -1


class Node(msgspec.Struct):
    """A part of an expression."""

    code: list[Instruction]
    is_nullable: bool
    """True if it matches the empty text."""
    height: int = 1
    copies: int = 1
    """The largest product of nested repetition counts."""
    is_concatenation: bool = False


def character(characters: CharacterSet) -> Node:
    """Return a node that matches one of the characters."""
    return Node([(CHARACTER, 0, 0, characters)], is_nullable=False)


def assertion(condition: int) -> Node:
    """Return a node that matches the empty text where the condition holds."""
    return Node([(ASSERT, condition, 0, None)], is_nullable=True)


def concatenate(nodes: list[Node]) -> Node:
    """Return a node that matches the nodes one after the other."""
    if len(nodes) == 1:
        return nodes[0]
    code = [instruction for node in nodes for instruction in node.code]
    height = max((node.height + (not node.is_concatenation) for node in nodes), default=1)
    return Node(code, all(n.is_nullable for n in nodes), height, _copies(nodes), is_concatenation=True)


def alternate(nodes: list[Node]) -> Node:
    """Return a node that matches one of the nodes, the first that leads to a match."""
    if len(nodes) == 1:
        return nodes[0]
    code = list(nodes[-1].code)
    parts: list[Instruction] = []
    rest = len(code) + sum(len(node.code) + 2 for node in nodes[:-1])
    for node in nodes[:-1]:
        rest -= len(node.code) + 2
        parts.append((SPLIT, _STEP, len(node.code) + 2, None))
        parts += node.code
        parts.append((JUMP, rest + 1, 0, None))
    height = 1 + max(node.height for node in nodes)
    return Node(parts + code, any(n.is_nullable for n in nodes), height, _copies(nodes))


def _copies(nodes: list[Node]) -> int:
    return max((node.copies for node in nodes), default=1)


def repeat(node: Node, least: int, most: int, *, is_greedy: bool) -> Node:
    """Return a node that matches between `least` and `most` times, which is UNLIMITED or a number."""
    factor = 1 if most == 0 else max(1, least if most == UNLIMITED else most)
    copies = 1 if most == 0 else factor * node.copies
    is_nullable = not least or node.is_nullable
    if most == UNLIMITED:
        code = node.code * (least - 1) + _plus(node.code, is_greedy) if least else _star(node, is_greedy)
    else:
        code = node.code * least + _optional_copies(node.code, most - least, is_greedy)
    return Node(code, is_nullable, node.height + 1, copies)


def _star(node: Node, is_greedy: bool) -> list[Instruction]:
    if node.is_nullable:
        # As Go, so that the preference is right: (?:x+)?
        return _optional(_plus(node.code, is_greedy), is_greedy)
    size = len(node.code)
    return [_split(_STEP, size + 2, is_greedy), *node.code, (JUMP, -(size + 1), 0, None)]


def _plus(code: list[Instruction], is_greedy: bool) -> list[Instruction]:
    return [*code, _split(-len(code), _STEP, is_greedy)]


def _optional(code: list[Instruction], is_greedy: bool) -> list[Instruction]:
    return [_split(_STEP, len(code) + 1, is_greedy), *code]


def _optional_copies(code: list[Instruction], count: int, is_greedy: bool) -> list[Instruction]:
    """Return the code of `(x(x(x)?)?)?`: each copy may leave to the end of all."""
    result: list[Instruction] = []
    size = len(code) + 1
    for left in range(count, 0, -1):
        result.append(_split(_STEP, left * size, is_greedy))
        result += code
    return result


def _split(preferred: int, other: int, is_greedy: bool) -> Instruction:
    return (SPLIT, preferred, other, None) if is_greedy else (SPLIT, other, preferred, None)
