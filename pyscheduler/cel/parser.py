"""Parser of CEL: operator precedence with a stack, and one recursion per bracket (grammar: cel-go's `CEL.g4`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyscheduler.cel.lexer import END, Token, tokenize
from pyscheduler.cel.literals import LiteralError, parse_bytes, parse_double, parse_int, parse_string, parse_uint
from pyscheduler.cel.macros import MAX_COPIED_NODES, CopyBudget, ExpressionTooLargeError, expand
from pyscheduler.cel.source import NO_LOCATION, Issues
from pyscheduler.cel.syntax import (
    Expr,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    children,
    qualified_name,
)
from pyscheduler.cel.values import Value

MAX_DEPTH: Final = 250
"""cel-go's limit of the nesting of each rule; here also that of the syntax tree after the expansion of macros."""
MAX_CHARACTERS: Final = 100_000
_TOO_DEEP: Final = f"expression recursion limit exceeded: {MAX_DEPTH}"
_OPERAND: Final = "{{'[', {0}'{{', {1}'(', {2}'.', {3}'-', '!', {4}'true', 'false', 'null', {5}}}".format
_LITERALS: Final = "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
_STARTS: Final = frozenset(("[", "{", "(", ".", "-", "!", "true", "false", "null", *_LITERALS.split(", ")))
"""Tokens that an operand begins with."""


def _operand(after: str = "") -> str:
    """Return the tokens that an operand begins with, and those that may stand in its place after a bracket."""
    return _OPERAND(
        "']', " if after == "[]" else "",
        "'}', " if after == "{" else "",
        "')', " if after == "(" else "",
        "',', " if after in ("[]", "{") else "",
        "'?', " if after in ("[", "[]", "{") else "",
        _LITERALS,
    )


RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_FUNCTIONS: Final = {operator: f"_{operator}_" for operator in _PRECEDENCE} | {"in": "@in"}
_AFTER_OPERAND: Final = frozenset((*_PRECEDENCE, "?", ".", "["))


class _SyntaxStop(Exception):
    """The first syntax error: nothing after it is reported."""


def parse(text: str, issues: Issues) -> Expr | None:
    """Return the syntax tree with macros expanded, or None after a syntax error."""
    if len(text) > MAX_CHARACTERS:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CHARACTERS}"
        issues.report(NO_LOCATION, message)
        return None
    parser = _Parser(tokenize(text, issues), issues)
    try:
        tree = parser.parse()
    except _SyntaxStop:
        return None
    except RecursionError:
        issues.report(NO_LOCATION, _TOO_DEEP)
        return None
    except ExpressionTooLargeError:
        issues.report(NO_LOCATION, f"expression is too large: macros copy more than {MAX_COPIED_NODES} nodes")
        return None
    if not issues and depth_of(tree) > MAX_DEPTH:
        issues.report(NO_LOCATION, "max recursion depth exceeded")
    return None if issues else tree


def depth_of(tree: Expr) -> int:
    """Return the number of levels of a tree."""
    deepest = 0
    pending: list[tuple[Expr, int]] = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(child, depth + 1) for child in children(node)]
    return deepest


class _Parser:
    def __init__(self, tokens: list[Token], issues: Issues) -> None:
        self._tokens = tokens
        self._position = 0
        self._token = tokens[0]
        self._issues = issues
        self._depth = 0
        self._budget = CopyBudget()
        self._open: list[str] = []
        """Closing brackets of the open ones."""

    def parse(self) -> Expr:
        tree = self._expression()
        if self._token.kind != END:
            word = "extraneous" if self._peek().kind == END else "mismatched"
            raise self._failure(f"{word} input '{self._token.text}' expecting <EOF>")
        return tree

    def _peek(self) -> Token:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        token = self._token
        self._position += 1
        self._token = self._tokens[min(self._position, len(self._tokens) - 1)]
        return token

    def _accept(self, kind: str) -> Token | None:
        return self._advance() if self._token.kind == kind else None

    def _expect(self, kind: str, expected: str = "") -> Token:
        """Return the next token of a kind; report another one as ANTLR does, which goes on if one token explains it."""
        token = self._token
        if token.kind == kind:
            return self._advance()
        name = kind if kind.isupper() else f"'{kind}'"
        if not expected and self._peek().kind == kind:
            self._report(f"extraneous input '{token.text}' expecting {name}")
            self._advance()
            return self._advance()
        if not expected and self._may_follow(kind, token.kind):
            self._report(f"missing {name} at '{token.text}'")
            return Token(kind, kind, token.offset)
        raise self._failure(f"mismatched input '{token.text}' expecting {expected or name}")

    def _close(self, bracket: str) -> None:
        self._open.pop()
        self._expect(bracket)

    def _may_follow(self, kind: str, following: str) -> bool:
        """Return True if a token fits after one that is missing."""
        if kind == ":":
            return following in _STARTS
        if kind not in (")", "]", "}"):
            return False
        return following in _AFTER_OPERAND or following == (self._open[-1] if self._open else END)

    def _failure(self, message: str) -> _SyntaxStop:
        self._report(message)
        return _SyntaxStop()

    def _report(self, message: str) -> None:
        self._issues.report(self._token.offset, f"Syntax error: {message}")

    def _expression(self) -> Expr:
        """Parse a ternary of chains of binary operators."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._issues.report(NO_LOCATION, _TOO_DEEP)
            raise _SyntaxStop
        result = self._binary()
        question = self._accept("?")
        if question is not None:
            when_true = self._binary()
            self._expect(":")
            result = FunctionCall(question.offset, "_?_:_", None, [result, when_true, self._expression()])
        self._depth -= 1
        return result

    def _binary(self) -> Expr:
        """Parse operands and binary operators, all of which are left-associative."""
        operands = [self._unary()]
        operators: list[Token] = []
        while True:
            precedence = _PRECEDENCE.get(self._token.kind, 0)
            while operators and _PRECEDENCE[operators[-1].kind] >= precedence:
                right = operands.pop()
                operands[-1] = self._combine(operators.pop(), operands[-1], right)
            if precedence == 0:
                return operands[0]
            operators.append(self._advance())
            operands.append(self._unary())

    @staticmethod
    def _combine(operator: Token, left: Expr, right: Expr) -> Expr:
        function = _FUNCTIONS[operator.kind]
        if operator.kind in ("&&", "||") and isinstance(left, FunctionCall) and left.function == function:
            # Also for `(a && b) && c`: the result, the cost and the errors are the same.
            left.arguments.append(right)
            return left
        return FunctionCall(operator.offset, function, None, [left, right])

    def _unary(self) -> Expr:
        first = self._token
        if first.kind == "!":
            count = self._count("!")
            operand = self._postfix(self._primary())
            return FunctionCall(first.offset, "!_", None, [operand]) if count % 2 else operand
        if first.kind == "-" and self._peek().kind not in ("NUM_INT", "NUM_FLOAT"):
            count = self._count("-")
            operand = self._postfix(self._primary())
            return FunctionCall(first.offset, "-_", None, [operand]) if count % 2 else operand
        return self._postfix(self._primary())

    def _count(self, kind: str) -> int:
        count = 0
        while self._accept(kind):
            count += 1
        return count

    def _primary(self) -> Expr:
        token = self._token
        match token.kind:
            case "IDENTIFIER" | ".":
                return self._name()
            case "(":
                self._advance()
                self._open.append(")")
                inner = self._expression()
                self._close(")")
                return inner
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "NUM_INT" | "NUM_FLOAT" | "NUM_UINT":
                return self._number("", token.offset)
            case "STRING" | "BYTES":
                self._advance()
                return self._literal(token, parse_string if token.kind == "STRING" else parse_bytes)
            case "true" | "false" | "null":
                self._advance()
                return Literal(token.offset, {"true": True, "false": False, "null": None}[token.kind])
            case "-" if self._peek().kind in ("NUM_INT", "NUM_FLOAT"):
                self._advance()
                return self._number("-", token.offset)
        if token.kind == "-":
            self._advance()
            raise self._failure(f"no viable alternative at input '-{self._token.text}'")
        return self._no_operand()

    def _no_operand(self, after: str = "") -> Expr:
        """Report a token that begins no operand; go on if the next one does."""
        message = f"input '{self._token.text}' expecting {_operand(after)}"
        if self._peek().kind not in _STARTS:
            raise self._failure(f"mismatched {message}")
        self._report(f"extraneous {message}")
        self._advance()
        return self._primary()

    def _begin(self, bracket: str, after: str) -> None:
        """Remember an open bracket; report a token that cannot follow it."""
        self._open.append(bracket)
        allowed = {bracket} if after != "[" else set()
        if after != "(":
            allowed |= {"?", ","} if after != "[" else {"?"}
        if self._token.kind not in _STARTS | allowed and self._peek().kind not in _STARTS:
            self._no_operand(after)

    def _number(self, sign: str, offset: int) -> Expr:
        token = self._advance()._replace(offset=offset)
        token = token._replace(text=sign + token.text)
        parse = {"NUM_INT": parse_int, "NUM_UINT": parse_uint, "NUM_FLOAT": parse_double}[token.kind]
        return self._literal(token, parse)

    def _literal(self, token: Token, parse: Callable[[str], Value]) -> Expr:
        try:
            return Literal(token.offset, parse(token.text))
        except LiteralError as error:
            self._issues.report(token.offset, str(error))
            return Literal(token.offset, None)

    def _name(self) -> Expr:
        """Parse an identifier or the call of a function without target, each with an optional leading dot."""
        start = self._token.offset
        dot = "." if self._accept(".") else ""
        token = self._identifier()
        if token.text in RESERVED:
            self._issues.report(start, f"reserved identifier: {token.text}")
            if self._token.kind != "(":
                return Literal(start, None)
        if self._token.kind != "(":
            return Ident(token.offset, dot + token.text)
        bracket = self._advance()
        return self._call(bracket.offset, dot + token.text, None)

    def _identifier(self) -> Token:
        if self._token.kind != "IDENTIFIER":
            text = "" if self._token.kind == END else self._token.text
            raise self._failure(f"no viable alternative at input '.{text}'")
        return self._advance()

    def _call(self, offset: int, function: str, target: Expr | None) -> Expr:
        arguments: list[Expr] = []
        self._begin(")", "(")
        if self._token.kind != ")":
            arguments.append(self._expression())
            while self._accept(","):
                arguments.append(self._expression())
        self._close(")")
        return expand(FunctionCall(offset, function, target, arguments), self._issues, self._budget)

    def _postfix(self, operand: Expr) -> Expr:
        """Parse selections, calls, indices and the fields of messages after an operand."""
        while True:
            token = self._token
            if token.kind == ".":
                self._advance()
                operand = self._select(token, operand)
            elif token.kind == "[":
                self._advance()
                self._begin("]", "[")
                function = "_[?_]" if self._accept("?") else "_[_]"
                index = self._expression()
                self._close("]")
                operand = FunctionCall(token.offset, function, None, [operand, index])
            elif token.kind == "{" and (name := qualified_name(operand)) is not None:
                operand = self._struct(name)
            else:
                return operand

    def _select(self, dot: Token, operand: Expr) -> Expr:
        is_optional = self._accept("?") is not None
        if self._token.kind == "ESC_IDENTIFIER":
            name = self._advance()
            text = name.text[1:-1]
        else:
            name = self._identifier()
            text = name.text
            if self._token.kind == "(" and not is_optional:
                return self._call(self._advance().offset, text, operand)
        if is_optional:
            return FunctionCall(dot.offset, "_?._", None, [operand, Literal(name.offset, text)])
        return Select(dot.offset, operand, text)

    def _list(self) -> Expr:
        bracket = self._advance()
        elements: list[Expr] = []
        optionals: set[int] = set()
        self._begin("]", "[]")
        while self._token.kind != "]":
            if self._token.kind == "," and self._peek().kind == "]":
                self._advance()
                break
            if elements:
                self._expect(",", "{']', ','}")
            if self._accept("?"):
                optionals.add(len(elements))
            elements.append(self._expression())
        self._close("]")
        return ListLiteral(bracket.offset, elements, frozenset(optionals))

    def _map(self) -> Expr:
        bracket = self._advance()
        entries: list[tuple[Expr, Expr, bool]] = []
        self._begin("}", "{")
        while self._token.kind != "}":
            if self._token.kind == "," and self._peek().kind == "}":
                self._advance()
                break
            if entries:
                self._expect(",", "{'}', ','}")
            is_optional = self._accept("?") is not None
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), is_optional))
        self._close("}")
        return MapLiteral(bracket.offset, entries)

    def _struct(self, name: str) -> Expr:
        """Parse the fields of a message, which are dropped: no message can be built."""
        bracket = self._advance()
        count = 0
        self._open.append("}")
        while self._token.kind != "}":
            if self._token.kind == "," and self._peek().kind == "}":
                self._advance()
                break
            if count:
                self._expect(",", "{'}', ','}")
            self._accept("?")
            if not self._accept("ESC_IDENTIFIER"):
                self._expect("IDENTIFIER")
            self._expect(":")
            self._expression()
            count += 1
        self._close("}")
        return StructLiteral(bracket.offset, name)
