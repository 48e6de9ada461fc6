"""Kubernetes' library of named formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final, TypeAlias

from pyscheduler.cel.functions.costs import actual_size, fixed, pattern_cost
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.go_text import utf8
from pyscheduler.cel.types import STRING, CelType, list_of, opaque, optional_of
from pyscheduler.cel.url import request_uri_problem
from pyscheduler.cel.values import NO_SUCH_OVERLOAD, NONE, CelError, Opaque, Optional, Value

FORMAT: Final = opaque("kubernetes.NamedFormat")
_Problems: TypeAlias = list[str]
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_KEY})?"
_UUID: Final = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME: Final = "^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\Z")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_TIME_PATTERN: Final = re.compile(rf"{_TIME[:-1]}\Z")
_UUID_PATTERN: Final = re.compile(rf"{_UUID[:-1]}\Z", re.ASCII)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2
_LABEL_LENGTH: Final = 63
_SUBDOMAIN_LENGTH: Final = 253


class Format(Opaque):
    """A named check of strings."""

    __slots__ = ("name", "pattern_size", "validate")
    TYPE: ClassVar[CelType] = FORMAT

    def __init__(self, name: str, validate: Callable[[str], _Problems], pattern_size: int) -> None:
        self.name = name
        self.validate = validate
        self.pattern_size = pattern_size
        """Length of the pattern in characters, for the cost."""

    def equal(self, other: Value) -> bool | CelError:
        """Return True for the same format; an error for a value of another type."""
        return other.name == self.name if isinstance(other, Format) else NO_SUCH_OVERLOAD

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(rf"{pattern}\Z", re.ASCII)
    return lambda text: compiled.match(text) is not None


_is_label: Final = _matches(_LABEL)
_is_subdomain: Final = _matches(_SUBDOMAIN)
_is_label_1035: Final = _matches(_LABEL_1035)
_is_label_key: Final = _matches(_LABEL_KEY)
_is_label_value: Final = _matches(_LABEL_VALUE)


def _pattern_problem(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_CONSIST: Final = "must consist of"
_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_PROBLEM: Final = _pattern_problem(
    f"a lowercase RFC 1123 label {_CONSIST} lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_PROBLEM: Final = _pattern_problem(
    f"a lowercase RFC 1123 subdomain {_CONSIST} lower case alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_PROBLEM: Final = _pattern_problem(
    f"a DNS-1035 label {_CONSIST} lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_LABEL_KEY_PROBLEM: Final = _pattern_problem(
    f"{_CONSIST} alphanumeric characters, '-', '_' or '.', {_ENDS}", _LABEL_KEY, "MyName", "my.name", "123-abc"
)
_LABEL_VALUE_PROBLEM: Final = _pattern_problem(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def _too_long(text: str, length: int, unit: str) -> _Problems:
    return [f"must be no more than {length} {unit}"] if len(utf8(text)) > length else []


def _check_label(text: str) -> _Problems:
    problems = _too_long(text, _LABEL_LENGTH, "characters")
    if not _is_label(text):
        problems.append("must not contain dots" if _is_subdomain(text) else _LABEL_PROBLEM)
    return problems


def _check_subdomain(text: str, unit: str = "characters") -> _Problems:
    return _too_long(text, _SUBDOMAIN_LENGTH, unit) + ([] if _is_subdomain(text) else [_SUBDOMAIN_PROBLEM])


def _check_label_1035(text: str) -> _Problems:
    return _too_long(text, _LABEL_LENGTH, "characters") + ([] if _is_label_1035(text) else [_LABEL_1035_PROBLEM])


def _check_qualified_name(text: str) -> _Problems:
    parts = text.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_LABEL_KEY_PROBLEM} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        ]
    problems = []
    name = parts[-1]
    if len(parts) == 2:
        prefix_problems = _check_subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        problems += [f"prefix part {problem}" for problem in prefix_problems]
    name_problems = _too_long(name, _LABEL_LENGTH, "bytes") if name else ["must be non-empty"]
    if not _is_label_key(name):
        name_problems.append(_LABEL_KEY_PROBLEM)
    return problems + [f"name part {problem}" for problem in name_problems]


def _check_label_value(text: str) -> _Problems:
    return _too_long(text, _LABEL_LENGTH, "bytes") + ([] if _is_label_value(text) else [_LABEL_VALUE_PROBLEM])


def _of_prefix(check: Callable[[str], _Problems]) -> Callable[[str], _Problems]:
    """Return the check of a prefix of names, whose last character may be a dash.

    As upstream, the last two characters are replaced.
    """

    def check_prefix(text: str) -> _Problems:
        if len(text) < 2 or not text.endswith("-"):
            return check(text)
        # Two bytes, which may be half a character.
        return check(f"{utf8(text)[:-2].decode('utf-8', 'surrogateescape')}a")

    return check_prefix


def _check_uri(text: str) -> _Problems:
    problem = request_uri_problem(text)
    return [problem] if problem else []


def _is_date(text: str) -> bool:
    found = _DATE.match(text)
    if not found:
        return False
    year, month, day = map(int, found.groups())
    if not 1 <= month <= len(_DAYS):
        return False
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= _DAYS[month - 1] + (is_leap and month == _FEBRUARY)


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = _TIME_PATTERN.match(parts[1])
    return bool(found and found[1] <= "23" and found[2] <= "59" and found[3] <= "59")


def _check(is_valid: Callable[[str], object], problem: str) -> Callable[[str], _Problems]:
    return lambda text: [] if is_valid(text) else [problem]


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _check_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", _check_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", _check_label_1035, 30),
    "qualifiedName": Format("QualifiedName", _check_qualified_name, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _of_prefix(_check_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _of_prefix(_check_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _of_prefix(_check_label_1035), 30),
    "labelValue": Format("LabelValue", _check_label_value, 40),
    "uri": Format("URI", _check_uri, 1103),
    "uuid": Format("uuid", _check(_UUID_PATTERN.match, "does not match the UUID format"), len(_UUID)),
    "byte": Format("byte", _check(_BASE64.match, "invalid base64"), 84),
    "date": Format("date", _check(_is_date, "invalid date"), len(_TIME)),
    "datetime": Format("datetime", _check(_is_datetime, "invalid datetime"), len(_TIME)),
}


def _validate(named: Format, text: str) -> Optional:
    problems = named.validate(text)
    return Optional(tuple(problems)) if problems else NONE


def _named(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(found) if found else NONE


def validate_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Match the second argument against the pattern of the format, which is the first."""
    named = arguments[0]
    return pattern_cost(actual_size(arguments[1]), named.pattern_size) if isinstance(named, Format) else 1


def _constant(named: Format) -> Callable[[], Format]:
    return lambda: named


FORMATS_LIBRARY: Final = {
    "validate": (
        Overload("format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate, True, validate_cost),
    ),
    "format.named": (Overload("format-named", (STRING,), optional_of(FORMAT), _named, cost=fixed(1)),),
    **{
        f"format.{name}": (Overload(f"format.{name}", (), FORMAT, _constant(named)),) for name, named in FORMATS.items()
    },
}
