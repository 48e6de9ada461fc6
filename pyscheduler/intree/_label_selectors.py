"""Label and node selectors, validated while they are compiled, with kube-scheduler's error texts.

The API server validates most of them, too. Invalid ones come from objects that older servers stored, from `evaluate`
and from configurations. Matches k8s.io/apimachinery's LabelSelectorAsSelector and its nodeaffinity helpers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from pyscheduler.api import Requirement, Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector, LabelSelectorRequirement, NodeSelectorTerm
from pyscheduler.intree._problems import invalid, unsupported

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_MAX_NAME, _MAX_PREFIX = 63, 253
_plain_key = re.compile(rf"(?:{_SUBDOMAIN}/)?{_NAME}").fullmatch
_plain_value = re.compile(_VALUE).fullmatch
_CHARACTERS = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_NAME_RULE = f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
_VALUE_RULE = (
    f"a valid label must be an empty string or {_CHARACTERS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_INT64 = re.compile(r"[+-]?[0-9]{1,63}")
_TAKES_VALUES: Mapping[str, bool] = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}


def read_selector(source: LabelSelector | None) -> Selector | None:
    """Compile a metav1.LabelSelector: None (absent) matches nothing and stays None; {} matches everything.

    Raises SelectorError with kube-scheduler's text if it breaks the API's rules.
    """
    if source is None:
        return None
    equal = (
        LabelSelectorRequirement(key=k, operator="In", values=(v,)) for k, v in (source.match_labels or {}).items()
    )
    return Selector(tuple(_requirement(r) for r in (*equal, *(source.match_expressions or ()))))


def aggregate(problems: Iterable[str]) -> str:
    """Join distinct errors into one text, as k8s.io/apimachinery's Aggregate prints them."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _requirement(source: LabelSelectorRequirement) -> Requirement:
    values = source.values or ()
    if _is_plainly_valid(source, values):
        return Requirement(source.key, source.operator, values)
    if source.operator not in _TAKES_VALUES:
        raise SelectorError(f"{_quoted(source.operator)} is not a valid label selector operator")
    problems = _key_problems(source.key)
    rule = _rule_of_number(source.operator, len(values))
    if rule:
        problems.append(f"values: Invalid value: {_json(values or None)}: {rule}")
    for i, value in enumerate(values):
        problems += _value_problems(f"values[{i}][{source.key}]", value)
    if problems:
        raise SelectorError(aggregate(problems))
    return Requirement(source.key, source.operator, values)


def _is_plainly_valid(source: LabelSelectorRequirement, values: tuple[str, ...]) -> bool:
    """Return True if a quick check proves it valid; nearly all are, and one pod may have fifty thousand."""
    takes_values = _TAKES_VALUES.get(source.operator)
    if takes_values is None or takes_values is not bool(values):
        return False
    if len(source.key) > _MAX_NAME or not _plain_key(source.key):
        return False
    return all(len(value) <= _MAX_NAME and _plain_value(value) for value in values)


def term_problems(path: str, term: NodeSelectorTerm) -> list[str]:
    """Return the validation errors of a nodeSelectorTerm or preference, each with its path below `path`.

    A term without requirements is valid: it matches nothing.
    """
    problems = []
    for i, requirement in enumerate(term.match_expressions or ()):
        problems += _expression_problems(f"{path}.matchExpressions[{i}]", requirement)
    for i, requirement in enumerate(term.match_fields or ()):
        field_path = f"{path}.matchFields[{i}]"
        if requirement.operator not in _FIELD_OPERATORS:
            problems.append(unsupported(f"{field_path}.operator", requirement.operator, _FIELD_OPERATORS))
        elif len(requirement.values or ()) != 1:
            problems.append(f"{field_path}.values: Invalid value: {_json(requirement.values)}: must have one element")
    return problems


def _expression_problems(path: str, requirement: LabelSelectorRequirement) -> list[str]:
    values, operator = requirement.values or (), requirement.operator
    if operator not in _NODE_OPERATORS:
        return [unsupported(f"{path}.operator", operator, _NODE_OPERATORS)]
    problems = [f"{path}.{problem}" for problem in _key_problems(requirement.key)]
    rule = _rule_of_number(operator, len(values))
    if rule:
        problems.append(f"{path}.values: Invalid value: {_json(requirement.values)}: {rule}")
    if operator in ("Gt", "Lt"):
        rule = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems += [invalid(f"{path}.values[{i}]", v, rule) for i, v in enumerate(values) if not _is_int64(v)]
    for i, value in enumerate(values):
        problems += _value_problems(f"{path}.values[{i}][{requirement.key}]", value)
    return problems


def _rule_of_number(operator: str, values: int) -> str:
    """Return the rule that a requirement with that number of values breaks, "" if none."""
    if operator in ("Gt", "Lt"):
        return "" if values == 1 else "for 'Gt', 'Lt' operators, exactly one value is required"
    if _TAKES_VALUES[operator]:
        return "" if values else "for 'in', 'notin' operators, values set can't be empty"
    return "values set must be empty for exists and does not exist" if values else ""


def _is_int64(text: str) -> bool:
    return bool(_INT64.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _json(values: tuple[str, ...] | None) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def key_rules(key: str) -> list[str]:
    """Return the rules for label keys that a key breaks."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return [
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    return (_prefix_rules(prefix) if slash else []) + _name_rules(name)


def _key_problems(key: str) -> list[str]:
    rules = key_rules(key)
    return [f"key: Invalid value: {_quoted(key)}: {'; '.join(rules)}"] if rules else []


def _prefix_rules(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    rules = [f"prefix part {_at_most(_MAX_PREFIX)}"] if len(prefix.encode()) > _MAX_PREFIX else []
    return rules if re.fullmatch(_SUBDOMAIN, prefix) else [*rules, f"prefix part {_SUBDOMAIN_RULE}"]


def _name_rules(name: str) -> list[str]:
    rules = [] if name else ["name part must be non-empty"]
    if len(name.encode()) > _MAX_NAME:
        rules.append(f"name part {_at_most(_MAX_NAME)}")
    return rules if re.fullmatch(_NAME, name) else [*rules, f"name part {_NAME_RULE}"]


def _value_problems(path: str, value: str) -> list[str]:
    rules = [_at_most(_MAX_NAME)] if len(value.encode()) > _MAX_NAME else []
    rules += [] if re.fullmatch(_VALUE, value) else [_VALUE_RULE]
    return [f"{path}: Invalid value: {_quoted(value)}: {'; '.join(rules)}"] if rules else []


def _at_most(length: int) -> str:
    return f"must be no more than {length} bytes"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
