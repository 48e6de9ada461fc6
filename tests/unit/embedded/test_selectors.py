"""Label and field selectors of query strings, and label selectors of objects."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.embedded.selectors import field_test, label_test, parse_labels, selector_test
from pyscheduler.embedded.status import ApiStatusError

LABELS = {"app": "web", "tier": "front", "size": "3"}
OBJECT: dict[str, Any] = {"metadata": {"name": "x", "labels": LABELS}, "spec": {"nodeName": "n1", "flag": True}}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("missing!=x", True),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("app in (web, db)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("missing notin (db)", True),
        ("app in (web),tier=front", True),
        ("app in (web),tier=back", False),
        ("size>2", True),
        ("size<3", False),
        ("app>1", False),
        ("app=,tier=front", False),
        ("app in ()", False),
    ],
)
def test_label_selector(selector: str, expected: bool) -> None:
    test = label_test(selector)
    assert (test is None or test(OBJECT)) is expected


@pytest.mark.parametrize("selector", ["app in web", "app in (web", "=x", "a b", "app=web tier=x", "app=we/b", "a/b/c"])
def test_malformed_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiStatusError) as caught:
        parse_labels(selector)
    assert caught.value.code == 400


FIELDS = {"metadata.name": "metadata.name", "spec.nodeName": "spec.nodeName", "spec.flag": "spec.flag"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=x", True),
        ("metadata.name==x,spec.nodeName=n1", True),
        ("spec.nodeName!=n1", False),
        ("spec.nodeName=", False),
        ("spec.flag=true", True),
    ],
)
def test_field_selector(selector: str, expected: bool) -> None:
    test = field_test(selector, FIELDS)
    assert test is not None
    assert test(OBJECT) is expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [("spec.image=x", "field label not supported: spec.image"), ("metadata.name", "invalid selector")],
)
def test_invalid_field_selector_is_rejected(selector: str, message: str) -> None:
    with pytest.raises(ApiStatusError, match=message):
        field_test(selector, FIELDS)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, True),
    ],
)
def test_label_selector_of_an_object(selector: dict[str, Any] | None, expected: bool) -> None:
    assert selector_test(selector)(LABELS) is expected
