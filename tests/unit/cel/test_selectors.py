"""Selectors as users write them: which device they match, and what they report. All outcomes are Kubernetes' own."""

from __future__ import annotations

import pytest

from pyscheduler.cel import SelectorDevice, compile_selector
from tests.unit.cel.devices import DEVICE, cost, evaluate

OWN = 'device.attributes["gpu.example.com"]'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f'{OWN}.model == "a100"', True, id="attribute of the driver's domain"),
        pytest.param('device.attributes["other.example.com"].model == "a100"', False, id="attribute of another domain"),
        pytest.param('device.driver == "gpu.example.com"', True, id="driver"),
        pytest.param("device.allowMultipleAllocations", False, id="multiple allocations"),
        pytest.param(f'{OWN}.version.isGreaterThan(semver("1.0.0"))', True, id="version"),
        pytest.param(
            'device.capacity["gpu.example.com"].memory.compareTo(quantity("30Gi")) > 0', True, id="capacity in bytes"
        ),
        pytest.param(f"{OWN}.healthy", True, id="an attribute as the result"),
        pytest.param(f'{OWN}.links.exists(link, link == "b")', True, id="list attribute"),
        pytest.param(f'{OWN}.?rack.orValue("r1") == "r1"', True, id="default of an optional attribute"),
        pytest.param(f"cel.bind(own, {OWN}, own.count > 3 && own.healthy)", True, id="variable"),
    ],
)
def test_selector_matches_device(expression: str, expected: bool) -> None:
    assert evaluate(expression) is expected


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        pytest.param(f"{OWN}.rack == 1", "no such key: rack", id="missing attribute"),
        pytest.param('device.attributes["none.example.com"].x', "no such key: x", id="missing domain"),
        pytest.param(f'{OWN}.count.startsWith("5")', "no such overload", id="function of another type"),
        pytest.param(f"{OWN}.healthy + 1 == 2", "no such overload: _+_", id="operator of another type"),
        pytest.param(f"int({OWN}.version) == 1", "no such overload: int(kubernetes.Semver)", id="conversion"),
        pytest.param("9223372036854775807 + 1 > 0", "integer overflow", id="overflow of an int"),
        pytest.param("0u - 1u > 0u", "unsigned integer overflow", id="overflow of a uint"),
        pytest.param("1 / 0 == 1", "division by zero", id="division by zero"),
        pytest.param(f"{OWN}.links[2]", "index out of bounds: 2", id="index"),
        pytest.param(
            f"{OWN}.model",
            "CEL result of type string could not be converted to bool:"
            " unsupported native conversion from string to 'bool'",
            id="result that is no bool",
        ),
    ],
)
def test_error_has_upstreams_text(expression: str, error: str) -> None:
    assert evaluate(expression) == error


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 / 0 == 1 || true", True),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 && false", False),
        ("1 / 0 == 1 || false", "division by zero"),
        ("1 / 0 == 1 && true", "division by zero"),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("[0, 1].all(x, 1 / x == 1)", "division by zero"),
        ("[0, 2].all(x, 1 / x == 1)", False),
        ("[0, 1].exists_one(x, 1 / x == 1)", "division by zero"),
        ("true ? true : 1 / 0 == 1", True),
    ],
)
def test_logic_absorbs_errors(expression: str, expected: bool | str) -> None:
    assert evaluate(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "dyn(1) == 1.0 && 1u == dyn(1) && 1 < 1.5 && 2u > 1",
        "dyn(9007199254740993) == 9007199254740992.0",
        "dyn(true) != dyn(1) && dyn(1) in [1.0] && !(dyn(true) in [1])",
        "{1: 'a'}[dyn(1.0)] == 'a' && !(dyn(true) in {1: 'a'})",
        "double('NaN') != double('NaN')",
    ],
)
def test_numbers_compare_across_types_but_not_with_bools(expression: str) -> None:
    assert evaluate(expression) is True


def test_default_of_domains_is_seen_by_selection_only() -> None:
    assert evaluate("has(device.attributes.nothing)") is True
    assert evaluate('"nothing" in device.attributes') is False
    assert evaluate("size(device.attributes) == 2") is True


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f'{OWN}.model == "a100"', 5, id="4 for the attribute, 1 for the comparison"),
        pytest.param(f"has({OWN}.model)", 3, id="presence"),
        pytest.param("cel.bind(x, [device.driver], true)", 0, id="variable that is not used"),
        pytest.param("[1, 2, 3].all(x, x > 0)", 16, id="loop"),
        pytest.param("[device.driver].size() == 1", 14, id="list that is no constant"),
        pytest.param('device.driver in ["a", "b"]', 2, id="lookup in constants"),
        pytest.param('true || device.driver == "a"', 0, id="short circuit"),
    ],
)
def test_cost_is_that_of_cel_go(expression: str, expected: int) -> None:
    assert cost(expression) == expected


def test_allow_multiple_allocations() -> None:
    device = SelectorDevice("gpu.example.com", {}, {}, allow_multiple_allocations=True)
    assert compile_selector("device.allowMultipleAllocations").evaluate(device) is True


def test_program_evaluates_many_devices() -> None:
    program = compile_selector(f'cel.bind(a, {OWN}, a.model == "a100" && a.count == 5)')
    other = SelectorDevice("gpu.example.com", {"model": "a100", "count": 6}, {})
    assert [program.evaluate(device) for device in (DEVICE, other, DEVICE)] == [True, False, True]
