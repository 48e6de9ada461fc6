"""Selectors and tolerations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pyscheduler.api import NodeTerm, Requirement, Selector, Taint, Toleration
from pyscheduler.api.match import SelectorError, first_untolerated, label_selector, node_term, tolerates
from pyscheduler.api.objects import LabelSelector, NodeSelectorTerm


@pytest.mark.parametrize(
    ("operator", "values", "label", "holds"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("In", ("",), "", True),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), None, False),
        ("Gt", ("-1",), "+0", True),
        ("Gt", ("5",), "6.5", False),
        ("Gt", ("5",), "x", False),
        ("Gt", ("x",), "6", False),
        ("Gt", ("5",), "9223372036854775807", True),
        ("Gt", ("5",), "9223372036854775808", False),
        ("Lt", ("10",), "9", True),
        ("Lt", ("10",), "10", False),
        ("Lt", ("1", "2"), "0", False),
    ],
)
def test_requirement_matches_label(operator: str, values: tuple[str, ...], label: str | None, holds: bool) -> None:
    assert Requirement("key", operator, values).matches(label) is holds


def test_unknown_operator_raises_selector_error() -> None:
    with pytest.raises(SelectorError, match="'Near' is not a selector operator"):
        Requirement("key", "Near", ("a",)).matches("a")


@pytest.mark.parametrize(
    ("source", "labels", "matches"),
    [
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]}, {"a": "1"}, False),
    ],
)
def test_label_selector_matches_labels(source: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    selector = label_selector(msgspec.convert(source, LabelSelector))
    assert selector is not None
    assert selector.matches(labels) is matches


def test_absent_selector_differs_from_the_empty_one() -> None:
    assert label_selector(None) is None
    assert label_selector(LabelSelector()) == Selector()


NAME_IS_A = {"key": "metadata.name", "operator": "In", "values": ["a"]}


@pytest.mark.parametrize(
    ("source", "matches"),
    [
        pytest.param({}, False, id="empty term matches nothing"),
        pytest.param({"matchFields": [NAME_IS_A]}, True, id="name In"),
        pytest.param({"matchFields": [{**NAME_IS_A, "operator": "NotIn"}]}, False, id="name NotIn"),
        pytest.param(
            {"matchFields": [NAME_IS_A], "matchExpressions": [{"key": "x", "operator": "Exists"}]},
            False,
            id="fields and expressions",
        ),
        pytest.param({"matchFields": [{**NAME_IS_A, "values": ["a", "b"]}]}, False, id="field with two values"),
        pytest.param({"matchFields": [{**NAME_IS_A, "operator": "Exists"}]}, False, id="field with Exists"),
        pytest.param({"matchFields": [{**NAME_IS_A, "key": "spec.x", "operator": "NotIn"}]}, False, id="unknown field"),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "NotIn"}]}, False, id="NotIn without values"),
        pytest.param(
            {"matchExpressions": [{"key": "x", "operator": "DoesNotExist", "values": ["1"]}]},
            False,
            id="DoesNotExist with values",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["-1"]}]}, False, id="invalid label value"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1" * 64]}]},
            False,
            id="label value too long",
        ),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["", "1.a_b-2"]}]}, True),
    ],
)
def test_node_term_matches_node(source: dict[str, Any], matches: bool) -> None:
    assert node_term(msgspec.convert(source, NodeSelectorTerm)).matches("a", {}) is matches


def test_invalid_term_is_compiled_to_the_empty_term() -> None:
    source = {"matchExpressions": [{"key": "x", "operator": "Near", "values": ["1"]}], "matchFields": [NAME_IS_A]}
    assert node_term(msgspec.convert(source, NodeSelectorTerm)) == NodeTerm((), ())


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value=""), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Gt", value="1"), False),
        (Toleration(key="k", operator="Near", value="v"), False),
    ],
)
def test_toleration_of_a_taint(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, Taint(key="k", value="v", effect="NoSchedule")) is tolerated


def test_first_untolerated_taint() -> None:
    taints = [Taint(key=k, effect=e) for k, e in (("a", "NoExecute"), ("b", "PreferNoSchedule"), ("c", "NoSchedule"))]
    hard = ("NoSchedule", "NoExecute")
    assert first_untolerated(taints, [Toleration(key="a", operator="Exists")], hard) == taints[2]
    assert first_untolerated(taints, [Toleration(operator="Exists")], hard) is None
    assert first_untolerated(taints[1:2], [], hard) is None
