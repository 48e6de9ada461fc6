"""Parser of regular expressions in the syntax and with the error texts of Go's regexp/syntax (RE2)."""

from __future__ import annotations

import re
import string
from typing import Final, TypeAlias

from pyscheduler.cel.regex_classes import PERL, POSIX, CharacterClass, ClassItem, fold_orbit, unicode_item
from pyscheduler.cel.regex_program import (
    BEGIN_LINE,
    BEGIN_TEXT,
    END_LINE,
    END_TEXT,
    NO_WORD_BOUNDARY,
    UNLIMITED,
    WORD_BOUNDARY,
    Node,
    alternate,
    assertion,
    character,
    concatenate,
    repeat,
)

_MAX_REPEAT: Final = 1000
_MAX_HEIGHT: Final = 1000
MAX_INSTRUCTIONS: Final = 20_000
"""Size of a program; Go's limit is 3,355,443, which Python could not hold for expressions of tenants."""
_MAX_RUNE: Final = 0x10FFFF
_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_OCTAL: Final = "01234567"
_REPEAT: Final = re.compile(r"\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_]+\Z")
_CONTROL: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = "imsU"
_ASSERTIONS: Final = {"A": BEGIN_TEXT, "b": WORD_BOUNDARY, "B": NO_WORD_BOUNDARY, "z": END_TEXT}
_REPETITIONS: Final = {"*": (0, UNLIMITED), "+": (1, UNLIMITED), "?": (0, 1)}
_ANY: Final = CharacterClass((ClassItem(((0, _MAX_RUNE),)),))
_ANY_BUT_NEWLINE: Final = CharacterClass((ClassItem(((0xA, 0xA),)),), is_negated=True)


class RegexError(Exception):
    """A regular expression is invalid; the text is Go's."""

    def __init__(self, problem: str, expression: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{expression}`")


class _Mark:
    """A parenthesis or bar on the parser's stack."""

    __slots__ = ("captures", "flags")

    def __init__(self, flags: frozenset[str] | None = None, *, captures: bool = False) -> None:
        self.flags = flags
        """Flags to restore at the closing parenthesis; None for a bar."""
        self.captures = captures


_Entry: TypeAlias = Node | _Mark


def parse_regex(pattern: str) -> Node:
    """Return the program of a pattern. RegexError if it is invalid or too large."""
    return _PatternParser(pattern).parse()


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0
        self.flags: frozenset[str] = frozenset()
        self.stack: list[_Entry] = []
        self.previous_repeat = -1
        """Where the repetition operator before this position begins, -1 for none."""

    def parse(self) -> Node:
        while self.position < len(self.pattern):
            start = self.position
            is_repeat = self._parse_token(self.pattern[start])
            self.previous_repeat = start if is_repeat else -1
        self._close_alternation()
        if len(self.stack) != 1:
            raise RegexError("missing closing )", self.pattern)
        node = self.stack[0]
        assert isinstance(node, Node)
        return node

    def _parse_token(self, token: str) -> bool:
        """Parse what begins with a character. Return True for a repetition operator."""
        if token in _REPETITIONS:
            self._repeat(*_REPETITIONS[token], self.position + 1)
            return True
        if token == "{":
            return self._parse_counted_repeat()
        if token == "[":
            self._parse_class()
        elif token == "\\":
            self._parse_escaped()
        else:
            self.position += 1
            self._parse_operator(token)
        return False

    def _parse_operator(self, token: str) -> None:
        is_multiline = "m" in self.flags
        match token:
            case "(":
                self._parse_group()
            case "|":
                self._concatenate()
                self.stack.append(_Mark())
            case ")":
                self._parse_right_parenthesis()
            case "^":
                self._push(assertion(BEGIN_LINE if is_multiline else BEGIN_TEXT))
            case "$":
                self._push(assertion(END_LINE if is_multiline else END_TEXT))
            case ".":
                self._push(character(_ANY if "s" in self.flags else _ANY_BUT_NEWLINE))
            case _:
                self._literal(token)

    def _push(self, node: Node) -> None:
        if len(node.code) > MAX_INSTRUCTIONS or node.copies > _MAX_REPEAT:
            raise RegexError("expression too large", self.pattern)
        if node.height > _MAX_HEIGHT:
            raise RegexError("expression nests too deeply", self.pattern)
        self.stack.append(node)

    def _literal(self, text: str) -> None:
        self._push(character(frozenset(fold_orbit(text) if "i" in self.flags else text)))

    # Groups

    def _parse_group(self) -> None:
        if not self.pattern.startswith("?", self.position):
            self.stack.append(_Mark(self.flags, captures=True))
            return
        start = self.position - 1
        rest = self.pattern[start:]
        has_p = len(rest) > 4 and rest[2:4] == "P<"
        if has_p or (len(rest) > 3 and rest[2] == "<"):
            self._parse_named_group(start, 4 if has_p else 3)
        else:
            self._parse_flags(start)

    def _parse_named_group(self, start: int, length: int) -> None:
        end = self.pattern.find(">", start)
        if end < 0:
            raise RegexError("invalid named capture", self.pattern[start:])
        if not _NAME.match(self.pattern[start + length : end]):
            raise RegexError("invalid named capture", self.pattern[start : end + 1])
        self.stack.append(_Mark(self.flags, captures=True))
        self.position = end + 1

    def _parse_flags(self, start: int) -> None:
        flags = set(self.flags)
        is_negative = has_flag = False
        position = start + 2
        while position < len(self.pattern):
            token = self.pattern[position]
            position += 1
            if token in _FLAGS:
                (flags.discard if is_negative else flags.add)(token)
                has_flag = True
            elif token == "-" and not is_negative:
                is_negative, has_flag = True, False
            elif token in ":)" and (has_flag or not is_negative):
                if token == ":":
                    self.stack.append(_Mark(self.flags))
                self.flags = frozenset(flags)
                self.position = position
                return
            else:
                break
        raise RegexError("invalid or unsupported Perl syntax", self.pattern[start:position])

    def _parse_right_parenthesis(self) -> None:
        self._close_alternation()
        if len(self.stack) < 2:
            raise RegexError("unexpected )", self.pattern)
        node, mark = self.stack.pop(), self.stack.pop()
        assert isinstance(node, Node)
        assert isinstance(mark, _Mark)
        assert mark.flags is not None
        self.flags = mark.flags
        if mark.captures:
            node = Node(node.code, node.is_nullable, node.height + 1, node.copies)
        self._push(node)

    def _concatenate(self) -> None:
        """Replace the nodes after the last mark by their concatenation."""
        start = len(self.stack)
        while start and isinstance(self.stack[start - 1], Node):
            start -= 1
        nodes = [node for node in self.stack[start:] if isinstance(node, Node)]
        del self.stack[start:]
        if sum(len(node.code) for node in nodes) > MAX_INSTRUCTIONS:
            raise RegexError("expression too large", self.pattern)
        self._push(concatenate(nodes))

    def _close_alternation(self) -> None:
        """Replace what follows the last parenthesis by one node."""
        self._concatenate()
        alternatives: list[Node] = []
        while True:
            node = self.stack.pop()
            assert isinstance(node, Node)
            alternatives.append(node)
            mark = self.stack[-1] if self.stack else None
            if not isinstance(mark, _Mark) or mark.flags is not None:
                break
            self.stack.pop()
        if sum(len(node.code) + 2 for node in alternatives) > MAX_INSTRUCTIONS + 2:
            raise RegexError("expression too large", self.pattern)
        self._push(alternate(alternatives[::-1]))

    # Repetitions

    def _parse_counted_repeat(self) -> bool:
        found = _REPEAT.match(self.pattern, self.position)
        if not found:
            self.position += 1
            self._literal("{")
            return False
        least = _count(found[1])
        most = least if found[2] is None else UNLIMITED if found[3] is None else _count(found[3])
        if least > _MAX_REPEAT or most > _MAX_REPEAT or (most != UNLIMITED and least > most):
            raise RegexError("invalid repeat count", found[0])
        self._repeat(least, most, found.end())
        return True

    def _repeat(self, least: int, most: int, end: int) -> None:
        start = self.position
        is_greedy = "U" not in self.flags
        if self.pattern.startswith("?", end):
            end += 1
            is_greedy = not is_greedy
        if self.previous_repeat >= 0:
            raise RegexError("invalid nested repetition operator", self.pattern[self.previous_repeat : end])
        node = self.stack[-1] if self.stack else None
        if not isinstance(node, Node):
            raise RegexError("missing argument to repetition operator", self.pattern[start:end])
        copies = max(least, most, 1)
        if copies * node.copies > _MAX_REPEAT:
            raise RegexError("invalid repeat count", self.pattern[start:end])
        if (copies + 1) * len(node.code) > MAX_INSTRUCTIONS:
            raise RegexError("expression too large", self.pattern)
        self.stack.pop()
        self.position = end
        self._push(repeat(node, least, most, is_greedy=is_greedy))

    # Escapes and classes

    def _parse_escaped(self) -> None:
        start = self.position
        letter = self.pattern[start + 1 : start + 2]
        if letter in _ASSERTIONS:
            self.position += 2
            self._push(assertion(_ASSERTIONS[letter]))
            return
        if letter == "C":
            raise RegexError("invalid escape sequence", "\\C")
        if letter == "Q":
            end = self.pattern.find("\\E", start + 2)
            for text in self.pattern[start + 2 : end if end >= 0 else len(self.pattern)]:
                self._literal(text)
            self.position = end + 2 if end >= 0 else len(self.pattern)
            return
        item = self._parse_class_escape()
        if item:
            self._push(character(CharacterClass((item,))))
        else:
            self._literal(self._parse_escape())

    def _parse_class_escape(self) -> ClassItem | None:
        """Parse `\\d`, `\\pL` and the like, None if another escape or no escape follows."""
        if not self.pattern.startswith("\\", self.position):
            return None
        letter = self.pattern[self.position + 1 : self.position + 2]
        if letter and letter in "pP":
            return self._parse_unicode_class(is_negated=letter == "P")
        ranges = PERL.get(letter.lower())
        if not ranges:
            return None
        self.position += 2
        return ClassItem(ranges, is_negated=letter.isupper(), folds="i" in self.flags)

    def _parse_unicode_class(self, *, is_negated: bool) -> ClassItem | None:
        start = self.position
        first = self.pattern[start + 2 : start + 3]
        end = start + 2 + len(first)
        name = first
        if first == "{":
            end = self.pattern.find("}", start) + 1
            if not end:
                raise RegexError("invalid character class range", self.pattern[start:])
            name = self.pattern[start + 3 : end - 1]
        if name.startswith("^"):
            is_negated, name = not is_negated, name[1:]
        item = unicode_item(name, is_negated=is_negated, folds="i" in self.flags)
        if not item:
            raise RegexError("invalid character class range", self.pattern[start:end])
        self.position = end
        return item

    def _parse_class(self) -> None:
        start = self.position
        self.position += 1
        is_negated = self.pattern.startswith("^", self.position)
        self.position += is_negated
        items: list[ClassItem] = []
        is_first = True
        while is_first or not self.pattern.startswith("]", self.position):
            is_first = False
            item = self._parse_posix_class() or self._parse_class_escape() or self._parse_range(start)
            items.append(item)
        self.position += 1
        self._push(character(CharacterClass(items, is_negated=is_negated)))

    def _parse_posix_class(self) -> ClassItem | None:
        start = self.position
        if not self.pattern.startswith("[:", start) or len(self.pattern) - start <= 2:
            return None
        end = self.pattern.find(":]", start + 2)
        if end < 0:
            return None
        name = self.pattern[start + 2 : end]
        ranges = POSIX.get(name.removeprefix("^"))
        if not ranges:
            raise RegexError("invalid character class range", self.pattern[start : end + 2])
        self.position = end + 2
        return ClassItem(ranges, is_negated=name.startswith("^"), folds="i" in self.flags)

    def _parse_range(self, class_start: int) -> ClassItem:
        start = self.position
        first = last = self._parse_class_character(class_start)
        rest = self.pattern[self.position : self.position + 2]
        if len(rest) == 2 and rest[0] == "-" and rest[1] != "]":
            self.position += 1
            last = self._parse_class_character(class_start)
            if last < first:
                raise RegexError("invalid character class range", self.pattern[start : self.position])
        return ClassItem(((ord(first), ord(last)),), folds="i" in self.flags)

    def _parse_class_character(self, class_start: int) -> str:
        if self.position >= len(self.pattern):
            raise RegexError("missing closing ]", self.pattern[class_start:])
        if self.pattern[self.position] == "\\":
            return self._parse_escape()
        self.position += 1
        return self.pattern[self.position - 1]

    def _parse_escape(self) -> str:
        """Return the character of an escape sequence."""
        start = self.position
        letter = self.pattern[start + 1 : start + 2]
        if not letter:
            raise RegexError("trailing backslash at end of expression", "")
        self.position += 2
        if letter in _CONTROL:
            return _CONTROL[letter]
        following = self.pattern[self.position : self.position + 1]
        if letter == "0" or (letter in _OCTAL and following and following in _OCTAL):
            digits = letter
            while len(digits) < 3 and self.pattern[self.position : self.position + 1] in tuple(_OCTAL):
                digits += self.pattern[self.position]
                self.position += 1
            return chr(int(digits, 8))
        if letter == "x" and following:
            return self._parse_hexadecimal(start)
        if letter.isascii() and letter not in _ALPHANUMERIC:
            return letter
        raise RegexError("invalid escape sequence", self.pattern[start : self.position])

    def _parse_hexadecimal(self, start: int) -> str:
        code = 0
        if self.pattern[self.position] != "{":
            digits = self.pattern[self.position : self.position + 2]
            self.position += len(digits)
            if len(digits) < 2 or any(digit not in string.hexdigits for digit in digits):
                raise RegexError("invalid escape sequence", self.pattern[start : self.position])
            return chr(int(digits, 16))
        self.position += 1
        first = self.position
        while self.position < len(self.pattern):
            digit = self.pattern[self.position]
            self.position += 1
            if digit == "}" and self.position - 1 > first:
                return chr(code)
            if digit not in string.hexdigits:
                break
            code = code * 16 + int(digit, 16)
            if code > _MAX_RUNE:
                break
        raise RegexError("invalid escape sequence", self.pattern[start : self.position])


def _count(digits: str) -> int:
    return int(digits) if len(digits) <= 4 else _MAX_REPEAT + 1
