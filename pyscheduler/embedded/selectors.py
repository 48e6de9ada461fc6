"""Label and field selectors of list, watch and deletecollection requests.

The grammar is that of k8s.io/apimachinery's labels.Parse and fields.ParseSelector:
`a=b,c!=d,e in (x,y),f notin (z),g,!h` for labels, `metadata.name=x,spec.nodeName!=` for fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyscheduler.embedded.objects import dig_text, labels_of
from pyscheduler.embedded.status import bad_request

Test = Callable[[Mapping[str, Any]], bool]
"""Return True if a selector matches the object."""

_TOKEN = re.compile(r"\s*(==|=|!=|!|,|\(|\)|>|<|[^\s,()=!<>]+)")
_NAME = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)\Z")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class SelectorRequirement:
    """One requirement of a label selector: `key operator values`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if `labels` meet the requirement; `!=` and `notin` match a missing label."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return self.key in labels
            case "!":
                return self.key not in labels
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        (bound,) = self.values
        if value is None or not _INTEGER.match(value):
            return False
        return int(value) > int(bound) if self.operator == ">" else int(value) < int(bound)


def valid_label_key(key: str) -> bool:
    """Return True if `key` is a qualified name: an optional DNS prefix and a name of at most 63 characters."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.match(prefix)):
        return False
    return len(name) <= 63 and _NAME.match(name) is not None


def valid_label_value(value: str) -> bool:
    """Return True if `value` is a valid label value."""
    return value == "" or (len(value) <= 63 and _NAME.match(value) is not None)


def parse_labels(text: str) -> list[SelectorRequirement]:
    """Return the requirements of a labelSelector parameter. ApiError 400 if it is malformed."""
    tokens = _tokens(text)
    requirements = []
    while tokens:
        requirements.append(_requirement(text, tokens))
        if tokens and tokens.pop(0) != ",":
            raise _malformed(text, "requirements are separated by commas")
    return requirements


def _tokens(text: str) -> list[str]:
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise _malformed(text, f"unexpected {text[position]!r}")
        tokens.append(found[1])
        position = found.end()
    return tokens


def _requirement(text: str, tokens: list[str]) -> SelectorRequirement:
    negated = tokens[0] == "!"
    if negated:
        tokens.pop(0)
    key = tokens.pop(0) if tokens else ""
    if not valid_label_key(key):
        raise _malformed(text, f"{key!r} is not a label key")
    if negated:
        return SelectorRequirement(key, "!")
    if not tokens or tokens[0] == ",":
        return SelectorRequirement(key, "exists")
    operator = tokens.pop(0)
    if operator in ("in", "notin"):
        return SelectorRequirement(key, operator, _value_set(text, tokens))
    value = tokens.pop(0) if tokens and tokens[0] not in {",", "(", ")"} else ""
    if operator in (">", "<") and _INTEGER.match(value):
        return SelectorRequirement(key, operator, frozenset([value]))
    if operator not in ("=", "==", "!=") or not valid_label_value(value):
        raise _malformed(text, f"{operator!r} {value!r} after {key!r} is not a requirement")
    return SelectorRequirement(key, "notin" if operator == "!=" else "in", frozenset([value]))


def _value_set(text: str, tokens: list[str]) -> frozenset[str]:
    if not tokens or tokens.pop(0) != "(":
        raise _malformed(text, "in and notin require a list in parentheses")
    values: list[str] = []
    expected_value = True
    while tokens:
        token = tokens.pop(0)
        if token == ")":
            return frozenset(values if values and not expected_value else [*values, ""])
        if token == ",":
            values += [""] if expected_value else []
        elif expected_value and valid_label_value(token):
            values.append(token)
        else:
            break
        expected_value = token == ","
    raise _malformed(text, "the list of values is not closed or contains an invalid label value")


def _malformed(text: str, why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why} (labelSelector {text!r})")


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """Return the terms of a fieldSelector parameter as (path, is equality, value). ApiError 400 if malformed."""
    terms = []
    for term in filter(None, text.split(",")):
        path, operator, value = re.match(r"(.*?)(!=|==|=|\Z)(.*)\Z", term, re.DOTALL).groups()  # type: ignore[union-attr]
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((path.strip(), operator != "!=", value.strip()))
    return terms


def label_test(text: str) -> Test | None:
    """Return the test of a labelSelector parameter, None if it selects everything. ApiError 400 if malformed."""
    requirements = parse_labels(text)
    if not requirements:
        return None
    if len(requirements) == 1:
        matches = requirements[0].matches
        return lambda obj: matches(labels_of(obj))
    return lambda obj: all(r.matches(labels_of(obj)) for r in requirements)


def field_test(text: str, served: Mapping[str, str]) -> Test | None:
    """Return the test of a fieldSelector parameter; `served` maps the supported labels to paths in the object."""
    terms = []
    for label, equal, value in parse_fields(text):
        if label not in served:
            raise bad_request(f"field label not supported: {label}")
        terms.append((served[label].split("."), equal, value))
    if not terms:
        return None
    if len(terms) == 1:  # pods of a node: a list and a watch test every pod of the cluster
        ((only, is_equal, text),) = terms
        return lambda obj: (dig_text(obj, *only) == text) is is_equal
    return lambda obj: all((dig_text(obj, *path) == value) is equal for path, equal, value in terms)


def selector_test(selector: Mapping[str, Any] | None) -> Callable[[Mapping[str, str]], bool]:
    """Return a metav1.LabelSelector as a test of labels: null matches nothing, {} everything."""
    if selector is None:
        return lambda _labels: False
    named = [
        SelectorRequirement(key, "in", frozenset([value])) for key, value in (selector.get("matchLabels") or {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for item in selector.get("matchExpressions") or ():
        operator = operators.get(item.get("operator", ""), "in")
        named.append(SelectorRequirement(item.get("key", ""), operator, frozenset(item.get("values") or ())))
    return lambda labels: all(requirement.matches(labels) for requirement in named)
