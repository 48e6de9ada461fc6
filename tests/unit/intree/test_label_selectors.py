"""Label selectors: matching, and the errors of invalid ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import Requirement, Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.intree._label_selectors import read_selector

NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
PREFIX_RULE = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def selector(**fields: Any) -> LabelSelector:
    return msgspec.convert(fields, LabelSelector)


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return selector(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


def test_selectors_are_compiled() -> None:
    both = selector(matchLabels={"a": "1"}, matchExpressions=[{"key": "x.io/b", "operator": "Exists"}])
    assert read_selector(both) == Selector((Requirement("a", "In", ("1",)), Requirement("x.io/b", "Exists")))
    assert read_selector(selector()) == Selector(())
    assert read_selector(None) is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param(expression("a", "Lt", "1"), '"Lt" is not a valid label selector operator', id="operator"),
        pytest.param(
            expression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="no values",
        ),
        pytest.param(
            expression("a", "DoesNotExist", "1", "2"),
            'values: Invalid value: ["1","2"]: values set must be empty for exists and does not exist',
            id="unexpected values",
        ),
        pytest.param(
            expression("a", "NotIn", "1", "-"), f'values[1][a]: Invalid value: "-": {VALUE_RULE}', id="not a value"
        ),
        pytest.param(
            selector(matchLabels={"a": "v" * 64}),
            f'values[0][a]: Invalid value: "{"v" * 64}": must be no more than 63 bytes',
            id="long value",
        ),
        pytest.param(expression("-", "Exists"), f'key: Invalid value: "-": name part {NAME_RULE}', id="not a name"),
        pytest.param(
            expression("k" * 64, "Exists"),
            f'key: Invalid value: "{"k" * 64}": name part must be no more than 63 bytes',
            id="long name",
        ),
        pytest.param(
            expression("/a", "Exists"), 'key: Invalid value: "/a": prefix part must be non-empty', id="prefix"
        ),
        pytest.param(expression("A.io/a", "Exists"), f'key: Invalid value: "A.io/a": {PREFIX_RULE}', id="not a prefix"),
        pytest.param(
            expression(f"{'p' * 254}/a", "Exists"),
            f'key: Invalid value: "{"p" * 254}/a": prefix part must be no more than 253 bytes',
            id="long prefix",
        ),
        pytest.param(
            expression("a/b/c", "Exists"),
            f'key: Invalid value: "a/b/c": a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '
            "'/' (e.g. 'example.com/MyName')",
            id="two slashes",
        ),
        pytest.param(
            expression("-", "In", "-", "-"),
            f'[key: Invalid value: "-": name part {NAME_RULE}, values[0][-]: Invalid value: "-": {VALUE_RULE}, '
            f'values[1][-]: Invalid value: "-": {VALUE_RULE}]',
            id="all errors of one requirement",
        ),
    ],
)
def test_invalid_selector_raises_kubernetes_error(source: LabelSelector, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        read_selector(source)
    assert str(caught.value) == message
