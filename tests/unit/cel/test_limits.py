"""Expressions that a tenant may write to take time or memory: each ends soon, with an error of its own."""

from __future__ import annotations

import pytest

from pyscheduler.cel import CelError, SelectorDevice, compile_selector

_DEVICE = SelectorDevice("dra.example.com", {}, {})
_CANCELLED = "operation cancelled: actual cost limit exceeded"


_NUMBERS = ", ".join(map(str, range(2000)))
_IDEOGRAPHS = "".join(chr(0x4E00 + number) for number in range(1200))
_CLASS = "\\\\pL" * 1500
_LONG_CLASS = f"lists.range(9).all(i, '{_IDEOGRAPHS}'.matches('(?i)^[{_CLASS}]+$' + string(i)) || true)"


def _bindings(first: str, step: str, result: str, count: int) -> str:
    """Return nested bindings v0, v1, ...: each is the step with P for the one before; R in the result is the last."""
    values = [first, *(step.replace("P", f"v{number}") for number in range(count - 1))]
    head = "".join(f"cel.bind(v{number}, {value}, " for number, value in enumerate(values))
    return f"{head}{result.replace('R', f'v{count - 1}')}{')' * count}"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(_bindings("lists.range(1000)", "P + P", "R.size() > 0", 24), id="lists that double"),
        pytest.param(_bindings(f"'{'a' * 8000}'", "P + P", "R.size() > 0", 24), id="strings that double"),
        pytest.param(f"'aaaa'.replace('', '{'a' * 8000}').replace('', '{'b' * 8000}') == ''", id="replace multiplies"),
        pytest.param(f"lists.range(2000).map(x, '{'a' * 8000}').join().size() > 0", id="join multiplies"),
        pytest.param(_bindings("'a'", "'%s%s%s%s'.format([P, P, P, P])", "R.size() > 0", 30), id="format multiplies"),
        pytest.param("'%.900000000e'.format([1.0]).size() > 0", id="width of a clause"),
        pytest.param(_bindings("[0, 0]", "[P, P]", "R == R", 40), id="comparison of shared elements"),
        pytest.param(_bindings("[0, 0]", "[P, P]", "'%s'.format([R]) == ''", 40), id="print of shared elements"),
        pytest.param(
            _bindings("[[0]]", "[P, P, P]", "dyn(R).flatten(99).size() > 0", 30), id="flatten of shared elements"
        ),
        pytest.param(_bindings("[0, 0]", "[P, P]", "sets.contains(R, R)", 30), id="sets of shared elements"),
        pytest.param(_LONG_CLASS, id="characters of a long class"),
        pytest.param("lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0))", id="nested loops"),
        pytest.param(f"lists.range(1000).all(a, !(-1 in [{_NUMBERS}]))", id="numbers of a constant list"),
        pytest.param(f"lists.range(1000).all(a, !(-1 in dyn([{_NUMBERS}, a])))", id="numbers of a list"),
        pytest.param(f"lists.range(1000).all(a, !isURL('{'a' * 8000}'))", id="long URLs"),
        pytest.param(f"lists.range(1000).all(a, !isIP('{'1' * 8000}'))", id="long addresses"),
        pytest.param(f"lists.range(1000).all(a, !isCIDR('{'a' * 8000}/1'))", id="long networks"),
        pytest.param(f"lists.range(1000).all(a, !isIP('{'é' * 4000}'))", id="long quotes"),
    ],
)
def test_expression_is_cancelled(expression: str) -> None:
    outcome = compile_selector(expression).evaluate(_DEVICE)
    assert isinstance(outcome, CelError)
    assert outcome.message == _CANCELLED
