"""Random expressions of CEL with their types, and random devices.

Most expressions pass the type checker and many end in an error: overflow, missing keys, values of another type behind
`dyn`, invalid texts. Some do not pass the checker.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.cel import texts
from tests.cel.case import Case
from tests.cel.signatures import ORDERED, SCALARS, SIGNATURES, Signature

_DRIVER: Final = "dra.example.com"
_INTS: Final = (
    *("0", "1", "2", "3", "5", "-1", "-3", "10", "100", "1000"),
    *("9223372036854775807", "-9223372036854775808", "4611686018427387904", "0x1F"),
)
_UINTS: Final = ("0u", "1u", "2u", "7u", "18446744073709551615u", "9223372036854775808u")
_DOUBLES: Final = (
    *("0.0", "1.0", "-1.0", "0.5", "2.5", "1e3", "1e21", "1.5e-7", "9.2233720368547758e18", "-0.0", "1e308", "3.0"),
    *('double("NaN")', 'double("Infinity")'),
)
_BYTES: Final = ('b"abc"', 'b""', 'b"\\xff"', "b'é'")
_TEXTS: Final[dict[str, texts.TextMaker]] = {
    "text": texts.word,
    "pattern": texts.pattern,
    "quantity text": texts.quantity,
    "version text": texts.version,
    "address text": texts.address,
    "network text": texts.network,
    "url text": texts.url,
    "name text": texts.name,
    "duration text": texts.duration,
    "timestamp text": texts.timestamp,
    "layout text": texts.layout,
}
_MACROS: Final = {
    "bool": ("{l}.all({x}, {b})", "{l}.exists({x}, {b})", "{l}.exists_one({x}, {b})"),
    "list": ("{l}.filter({x}, {b})", "{l}.map({x}, {x})", "{l}.map({x}, {b}, {x})", "{l}.sortBy({x}, {k})"),
}
_TWO_VARIABLES: Final = (
    *("{l}.all(i, {x}, {b})", "{l}.exists(i, {x}, i > 0 && {b})", "{l}.existsOne(i, {x}, {b})"),
    *("{l}.transformList(i, {x}, i).size() > 0", "{l}.transformList(i, {x}, {b}, {x}).size() == 1"),
    *("{l}.transformMap(i, {x}, {x}).size() > 1", "{l}.transformMap(i, {x}, {b}, i).size() > 1"),
    "{l}.transformMapEntry(i, {x}, {{i: {x}}}).size() > 1",
)
_MAP_USES: Final = (
    *("{m}.all(k, k != {s})", "{m}.exists(k, v, v == {e})", "size({m}) == {i}", "{s} in {m}", "{m}[{s}] == {e}"),
    *("{m}[?{s}].orValue({e}) == {e}", "{m} == {m}", "{m}.transformMap(k, v, k) != {{}}", "has({m}.a)"),
    *("{m}.?a.hasValue()", "{m}.map(k, k).size() > 1", "{m}.existsOne(k, v, v == {e})"),
)


class Generator:
    """Draws cases; equal seeds give equal cases."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._scope: list[tuple[str, str]] = []
        self._in_list = False

    def case(self) -> Case:
        """Return a random case."""
        self._scope = []
        kind = self._rng.choice(("bool", "bool", "bool", "any", "any", "list"))
        depth = self._rng.choice((1, 2, 2, 3, 3, 4))
        if kind == "bool":
            text = self._expression("bool", depth)
        elif kind == "any":
            text = f"dyn({self._expression(self._rng.choice(SCALARS), depth)})"
        else:
            text = f"dyn({self._list(self._rng.choice(SCALARS[:6]), depth)})"
        return Case(text, self.device())

    def device(self) -> dict[str, Any]:
        """Return a random device."""
        rng = self._rng
        attributes: dict[str, Any] = {
            "s": {"string": texts.word(rng)},
            "i": {"int": rng.choice((0, 1, 5, -3, 2**63 - 1))},
            "b": {"bool": rng.random() < 0.5},
            "v": {"version": f"{rng.randint(0, 2)}.{rng.randint(0, 2)}.{rng.randint(0, 3)}"},
            "other.example.com/s": {"string": texts.word(rng)},
            "other.example.com/i": {"int": rng.randint(0, 5)},
        }
        capacity = {
            "mem": {"value": rng.choice(("10Gi", "1", "500m", "100Ti", "1e3", "0", "12345678901234567890"))},
            "other.example.com/q": {"value": rng.choice(("2", "2000m", "1Ki"))},
        }
        return {
            "driver": _DRIVER,
            "allowMultipleAllocations": rng.choice((None, True, False)),
            "attributes": {name: value for name, value in attributes.items() if rng.random() < 0.9},
            "capacity": {name: value for name, value in capacity.items() if rng.random() < 0.9},
        }

    def _expression(self, kind: str, depth: int) -> str:
        """Return an expression of a type, now and then of another one."""
        rng = self._rng
        if kind in _TEXTS:
            return self._text(kind, depth)
        if kind.startswith("list "):
            return self._list(kind.removeprefix("list "), depth)
        if rng.random() < 0.008:
            kind = rng.choice(SCALARS)
        if rng.random() < 0.015:
            return f"dyn({self._expression(rng.choice(SCALARS), depth - 1)})"
        if depth <= 0 or rng.random() < 0.1:
            return self._leaf(kind)
        return self._composite(kind, depth)

    def _composite(self, kind: str, depth: int) -> str:
        rng = self._rng
        choice = rng.random()
        if choice < 0.06:
            return f"({self._expression('bool', depth - 1)} ? {self._of(kind, depth)} : {self._of(kind, depth)})"
        if choice < 0.1:
            return self._optional(kind, depth)
        if choice < 0.13:
            return self._bind(kind, depth)
        if choice < 0.17:
            return f"{self._list(kind, depth - 1)}[{rng.choice(('0', '1', '2', self._of('int', depth)))}]"
        if kind == "bool" and choice < 0.35:
            return self._comprehension(depth)
        if kind == "bool" and choice < 0.42:
            return self._map_use(depth)
        if kind == "bool" and choice < 0.6:
            return self._comparison(depth)
        signatures = SIGNATURES[kind]
        return self._call(rng.choice(signatures), depth) if signatures else self._leaf(kind)

    def _of(self, kind: str, depth: int) -> str:
        return self._expression(kind, depth - 1)

    def _call(self, signature: Signature, depth: int) -> str:
        element = self._rng.choice(SCALARS[:6])
        kinds = (kind.replace("T", element) if kind in ("T", "list T") else kind for kind in signature.arguments)
        return signature.template.format(*(self._of(kind, depth) for kind in kinds))

    def _text(self, kind: str, depth: int) -> str:
        if depth > 0 and self._rng.random() < 0.1:
            return self._expression("string", depth - 1)
        return texts.literal(_TEXTS[kind](self._rng))

    def _optional(self, kind: str, depth: int) -> str:
        value, other = self._of(kind, depth), self._of(kind, depth)
        key = self._rng.choice(("s", "i", "b", "v", "x"))
        return self._rng.choice(
            (
                f"optional.of({value}).orValue({other})",
                f"optional.ofNonZeroValue({value}).orValue({other})",
                f"optional.none().orValue({value})",
                f"optional.of({value}).or(optional.of({other})).value()",
                f"optional.of({value}).optMap(o, o).orValue({other})",
                f"optional.of({value}).optFlatMap(o, optional.none()).orValue({other})",
                f"[{value}].first().value()",
                f"[{value}, {other}].last().orValue({other})",
                f"[{value}][?{self._of('int', depth)}].orValue({other})",
                f'device.attributes["{_DRIVER}"].?{key}.orValue({value})',
                f'device.attributes["none.example.com"].?{key}.orValue({value})',
                f"[optional.of({value}), optional.none()].unwrapOpt()[0]",
            )
        )

    def _bind(self, kind: str, depth: int) -> str:
        bound = self._rng.choice(SCALARS[:6])
        name = f"v{len(self._scope)}"
        value = self._of(bound, depth)
        self._scope.append((name, bound))
        body = self._of(kind, depth)
        self._scope.pop()
        return f"cel.bind({name}, {value}, {body})"

    def _list(self, kind: str, depth: int) -> str:
        rng = self._rng
        choice = rng.random()
        if depth > 0 and choice < 0.4:
            templates = ("{0} + {1}", "{0}.slice(0, {2})", "{0}.reverse()", "{0}.distinct()", "[{0}, {1}].flatten()")
            inner, other = self._list(kind, depth - 1), self._list(kind, depth - 2)
            return f"({rng.choice(templates).format(inner, other, rng.randint(0, 2))})"
        if depth > 0 and choice < 0.55:
            return self._macro(rng.choice(_MACROS["list"]), kind, depth)
        if depth > 0 and choice < 0.6 and kind in ("int", "string", "double", "bool", "uint"):
            return f"{self._list(kind, depth - 1)}.sort()"
        if choice < 0.65 and kind == "int":
            return f"lists.range({rng.choice(('3', '5', '0', '-1', '20'))})"
        return self._list_literal(kind, depth)

    def _list_literal(self, kind: str, depth: int) -> str:
        """Return a list whose elements mostly have one type: those of a device are dyn, which the checker refuses."""
        before = self._in_list
        self._in_list = self._rng.random() < 0.9
        elements = [self._of(kind, min(depth, 2)) for _ in range(self._rng.choice((0, 1, 2, 2, 3, 5)))]
        self._in_list = before
        return f"[{', '.join(elements)}]"

    def _macro(self, template: str, kind: str, depth: int) -> str:
        name = f"x{len(self._scope)}"
        values = self._list(kind, depth - 1)
        self._scope.append((name, kind))
        condition, key = self._of("bool", depth - 1), self._of("int", depth - 1)
        self._scope.pop()
        return template.format(l=values, x=name, b=condition, k=key)

    def _comprehension(self, depth: int) -> str:
        templates = _MACROS["bool"] if self._rng.random() < 0.7 else _TWO_VARIABLES
        return f"({self._macro(self._rng.choice(templates), self._rng.choice(SCALARS[:6]), depth)})"

    def _map_use(self, depth: int) -> str:
        kind = self._rng.choice(SCALARS[:6])
        keys = self._rng.sample(("a", "b", "c", "dé"), self._rng.randint(0, 3))
        entries = ", ".join(f"{texts.literal(key)}: {self._of(kind, depth)}" for key in keys)
        template = self._rng.choice(_MAP_USES)
        key = texts.literal(self._rng.choice(("a", "b", "x")))
        return f"({template.format(m=f'{{{entries}}}', s=key, e=self._of(kind, depth), i=self._leaf('int'))})"

    def _comparison(self, depth: int) -> str:
        operator = self._rng.choice(("==", "!=", "<", "<=", ">", ">="))
        kinds = SCALARS if operator in ("==", "!=") else ORDERED
        kind = self._rng.choice(kinds)
        other = kind
        if kind in ("int", "uint", "double") and self._rng.random() < 0.4:
            other = self._rng.choice(("int", "uint", "double"))
        return f"({self._of(kind, depth)} {operator} {self._of(other, depth)})"

    def _leaf(self, kind: str) -> str:
        rng = self._rng
        bound = [name for name, of in self._scope if of == kind]
        if bound and rng.random() < 0.6:
            return rng.choice(bound)
        if rng.random() < 0.25 and not self._in_list:
            return self._from_device(kind)
        match kind:
            case "int":
                return rng.choice(_INTS[:8]) if rng.random() < 0.8 else rng.choice(_INTS)
            case "uint":
                return rng.choice(_UINTS)
            case "double":
                return rng.choice(_DOUBLES)
            case "string":
                return texts.literal(texts.word(rng))
            case "bool":
                return rng.choice(("true", "false"))
            case "bytes":
                return rng.choice(_BYTES)
            case "null":
                return "null"
            case _:
                return self._made_from_text(kind)

    def _made_from_text(self, kind: str) -> str:
        function = {"version": "semver", "address": "ip", "network": "cidr", "format": "format.named"}.get(kind, kind)
        if kind == "format":
            names = ("dns1123Label", "uri", "uuid", "date", "datetime", "byte", "qualifiedName", "labelValue")
            name = self._rng.choice(names)
            return self._rng.choice((f"format.{name}()", f'format.named("{name}").value()'))
        maker = _TEXTS[f"{kind} text"]
        return f"{function}({texts.literal(maker(self._rng))})"

    def _from_device(self, kind: str) -> str:
        rng = self._rng
        if kind == "quantity":
            return rng.choice(
                (
                    f'device.capacity["{_DRIVER}"].mem',
                    'device.capacity["other.example.com"]["q"]',
                    f'device.capacity["{_DRIVER}"].none',
                )
            )
        if kind == "string" and rng.random() < 0.3:
            return "device.driver"
        if kind == "bool" and rng.random() < 0.4:
            key = rng.choice(("s", "i", "none"))
            return rng.choice(
                (
                    "device.allowMultipleAllocations",
                    f'has(device.attributes["{_DRIVER}"].{key})',
                    f'"{key}" in device.attributes["{_DRIVER}"]',
                    f'"{rng.choice((_DRIVER, "none"))}" in device.attributes',
                    f'device.attributes["{_DRIVER}"][?"{key}"].hasValue()',
                )
            )
        key = {"string": "s", "int": "i", "bool": "b", "version": "v"}.get(kind, rng.choice("sibv"))
        domain = rng.choice((_DRIVER, _DRIVER, _DRIVER, "other.example.com", "none.example.com"))
        return f'device.attributes["{domain}"].{key}'
