"""Character classes of Go's regexp/syntax: Perl, POSIX and Unicode ones, with simple case folding."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last code points."""

_DIGIT: Final = ((0x30, 0x39),)
_UPPER: Final = ((0x41, 0x5A),)
_LOWER: Final = ((0x61, 0x7A),)
_WORD: Final = (*_DIGIT, *_UPPER, (0x5F, 0x5F), *_LOWER)
PERL: Final[dict[str, Ranges]] = {"d": _DIGIT, "s": ((0x9, 0xA), (0xC, 0xD), (0x20, 0x20)), "w": _WORD}
POSIX: Final[dict[str, Ranges]] = {
    "alnum": (*_DIGIT, *_UPPER, *_LOWER),
    "alpha": (*_UPPER, *_LOWER),
    "ascii": ((0x0, 0x7F),),
    "blank": ((0x9, 0x9), (0x20, 0x20)),
    "cntrl": ((0x0, 0x1F), (0x7F, 0x7F)),
    "digit": _DIGIT,
    "graph": ((0x21, 0x7E),),
    "lower": _LOWER,
    "print": ((0x20, 0x7E),),
    "punct": ((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "space": ((0x9, 0xD), (0x20, 0x20)),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGIT, (0x41, 0x46), (0x61, 0x66)),
}
CATEGORIES: Final = frozenset(
    (
        *("C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd"),
        *(
            "Nl",
            "No",
            "P",
            "Pc",
            "Pd",
            "Pe",
            "Pf",
            "Pi",
            "Po",
            "Ps",
            "S",
            "Sc",
            "Sk",
            "Sm",
            "So",
            "Z",
            "Zl",
            "Zp",
            "Zs",
        ),
    )
)
_ALIASES: Final = {
    "Casedletter": "LC",
    "Closepunctuation": "Pe",
    "Cntrl": "Cc",
    "Combiningmark": "M",
    "Connectorpunctuation": "Pc",
    "Control": "Cc",
    "Currencysymbol": "Sc",
    "Dashpunctuation": "Pd",
    "Decimalnumber": "Nd",
    "Digit": "Nd",
    "Enclosingmark": "Me",
    "Finalpunctuation": "Pf",
    "Format": "Cf",
    "Initialpunctuation": "Pi",
    "Letter": "L",
    "Letternumber": "Nl",
    "Lineseparator": "Zl",
    "Lowercaseletter": "Ll",
    "Mark": "M",
    "Mathsymbol": "Sm",
    "Modifierletter": "Lm",
    "Modifiersymbol": "Sk",
    "Nonspacingmark": "Mn",
    "Number": "N",
    "Openpunctuation": "Ps",
    "Other": "C",
    "Otherletter": "Lo",
    "Othernumber": "No",
    "Otherpunctuation": "Po",
    "Othersymbol": "So",
    "Paragraphseparator": "Zp",
    "Privateuse": "Co",
    "Punct": "P",
    "Punctuation": "P",
    "Separator": "Z",
    "Spaceseparator": "Zs",
    "Spacingmark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecaseletter": "Lt",
    "Unassigned": "Cn",
    "Uppercaseletter": "Lu",
}
_FIRST_FOLDED: Final = 0x41
_LAST_FOLDED: Final = 0x1E943


class Item:
    """A part of a class: ranges or a Unicode category, or what is outside of it."""

    __slots__ = ("categories", "folds", "is_negated", "ranges")

    def __init__(
        self, ranges: Ranges = (), categories: str = "", *, is_negated: bool = False, folds: bool = False
    ) -> None:
        self.ranges = ranges
        self.categories = categories
        """Prefix of the Unicode categories; empty for ranges."""
        self.is_negated = is_negated
        self.folds = folds

    def contains(self, character: str) -> bool:
        """Return True if the character, or one that differs in case if the item folds, is in the item."""
        variants = fold_orbit(character) if self.folds else (character,)
        return any(map(self._has, variants)) != self.is_negated

    def _has(self, character: str) -> bool:
        if self.categories:
            return _is_in_category(character, self.categories)
        code = ord(character)
        return any(first <= code <= last for first, last in self.ranges)


class CharacterClass:
    """A set of characters; answers are kept for each character."""

    __slots__ = ("_is_negated", "_items", "_known")

    def __init__(self, items: Sequence[Item], *, is_negated: bool = False) -> None:
        self._items = items
        self._is_negated = is_negated
        self._known: dict[str, bool] = {}

    def __contains__(self, character: str) -> bool:
        found = self._known.get(character)
        if found is None:
            found = any(item.contains(character) for item in self._items) != self._is_negated
            self._known[character] = found
        return found


def _is_in_category(character: str, categories: str) -> bool:
    category = unicodedata.category(character)
    if categories == "LC":
        return category in ("Ll", "Lt", "Lu")
    # Go's table C has no unassigned characters.
    return category.startswith(categories) and (categories != "C" or category != "Cn")


def unicode_item(name: str, *, is_negated: bool, folds: bool) -> Item | None:
    """Return the class `\\p{name}`, None if it is unknown. Scripts are unknown: Python has no table of them."""
    name = _canonical(name)
    if name == "Any":
        return Item(((0, 0x10FFFF),), is_negated=is_negated)
    if name == "Ascii":
        return Item(((0, 0x7F),), is_negated=is_negated, folds=folds)
    if name == "Assigned":
        return Item((), "Cn", is_negated=not is_negated)
    category = "LC" if name == "Lc" else name if name in CATEGORIES else _ALIASES.get(name)
    return Item((), category, is_negated=is_negated, folds=folds) if category else None


def _canonical(name: str) -> str:
    text = name.replace("_", "").replace("-", "").replace(" ", "")
    return text[:1].upper() + text[1:].lower() if text.isascii() else text


def fold_orbit(character: str) -> tuple[str, ...]:
    """Return the characters that differ from one only in case, itself included (Go's `unicode.SimpleFold`)."""
    if not _FIRST_FOLDED <= ord(character) <= _LAST_FOLDED:
        return (character,)
    return _orbits().get(character, (character,))


@cache
def _orbits() -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for character in map(chr, range(_FIRST_FOLDED, _LAST_FOLDED + 1)):
        groups.setdefault(_folded(character), []).append(character)
    return {character: tuple(group) for group in _longer(groups) for character in group}


def _longer(groups: dict[str, list[str]]) -> Iterator[list[str]]:
    return (group for group in groups.values() if len(group) > 1)


def _folded(character: str) -> str:
    folded = character.casefold()
    if len(folded) == 1:
        return folded
    # Full folding has several characters where simple folding has the lower case.
    lower = character.lower()
    return lower if len(lower) == 1 else character
