"""Tokens of CEL."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pyscheduler.cel.source import Issues


class Token(NamedTuple):
    """A token: `kind` is its text for operators and keywords, otherwise the name of its class."""

    kind: str
    text: str
    offset: int


END: Final = "<EOF>"
_KEYWORDS: Final = frozenset(("in", "true", "false", "null"))
_ESCAPE: Final = (
    r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"  # as in CEL.g4
)
_STRING: Final = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\''
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"|\'(?:{_ESCAPE}|[^\\\'\n\r])*\''
    r'|[rR](?:"""(?s:.)*?"""|\'\'\'(?s:.)*?\'\'\'|"[^"\n\r]*"|\'[^\'\n\r]*\')'
)
_TOKEN: Final = re.compile(
    rf"""(?P<SKIP>[\t \r\n\f]+|//[^\n]*)
|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
|(?P<BYTES>[bB](?:{_STRING}))
|(?P<STRING>{_STRING})
|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
|(?P<OPERATOR>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_UNTERMINATED: Final = re.compile(rf'"(?:{_ESCAPE}|[^\\"\n\r])*|\'(?:{_ESCAPE}|[^\\\'\n\r])*|`[A-Za-z0-9_.\-/ ]*|[&|=]')


def tokenize(text: str, issues: Issues) -> list[Token]:
    """Return the tokens of an expression; characters that begin none are reported and left out."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            position = _report(text, position, issues)
            continue
        kind = match.lastgroup
        token = match.group()
        if kind == "OPERATOR" or token in _KEYWORDS:
            tokens.append(Token(token, token, position))
        elif kind is not None and kind != "SKIP":
            tokens.append(Token(kind, token, position))
        position = match.end()
    tokens.append(Token(END, END, len(text)))
    return tokens


def _report(text: str, position: int, issues: Issues) -> int:
    """Report what begins no token; return the offset after it. The character that does not fit is part of it."""
    match = _UNTERMINATED.match(text, position)
    end = (match.end() if match else position) + 1
    if text[end - 1 : end] == "\\" and match:
        end += 1
    end = min(len(text), end)
    part = text[position:end].replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    issues.report(position, f"Syntax error: token recognition error at: '{part}'")
    return end
