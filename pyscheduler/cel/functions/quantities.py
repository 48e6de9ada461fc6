"""Kubernetes' quantity library."""

from __future__ import annotations

from typing import Final

from pyscheduler.cel.functions.costs import fixed, traverse_first
from pyscheduler.cel.functions.registry import Overload
from pyscheduler.cel.quantity import DECIMAL_EXPONENT, QUANTITY, Quantity, add, parse_quantity, subtract
from pyscheduler.cel.types import BOOL, DOUBLE, INT, STRING
from pyscheduler.cel.values import CelError

_ONE: Final = fixed(1)


def _integer(quantity: Quantity) -> int | CelError:
    number = quantity.as_integer()
    return CelError("cannot convert value to integer") if number is None else number


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, DECIMAL_EXPONENT)


QUANTITY_LIBRARY: Final = {
    "quantity": (Overload("string_to_quantity", (STRING,), QUANTITY, parse_quantity, cost=traverse_first),),
    "isQuantity": (
        Overload(
            "is_quantity_string",
            (STRING,),
            BOOL,
            lambda text: isinstance(parse_quantity(text), Quantity),
            cost=traverse_first,
        ),
    ),
    # Declared upstream without being a member function: `sign(q)`.
    "sign": (Overload("quantity_sign", (QUANTITY,), INT, Quantity.sign, cost=_ONE),),
    "isGreaterThan": (
        Overload("quantity_is_greater_than", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.compare(b) == 1, True, _ONE),
    ),
    "isLessThan": (
        Overload("quantity_is_less_than", (QUANTITY, QUANTITY), BOOL, lambda a, b: a.compare(b) == -1, True, _ONE),
    ),
    "compareTo": (Overload("quantity_compare_to", (QUANTITY, QUANTITY), INT, Quantity.compare, True, _ONE),),
    "asApproximateFloat": (Overload("quantity_get_float", (QUANTITY,), DOUBLE, Quantity.as_float, True, _ONE),),
    "asInteger": (Overload("quantity_get_int", (QUANTITY,), INT, _integer, True, _ONE),),
    "isInteger": (
        Overload("quantity_is_integer", (QUANTITY,), BOOL, lambda q: q.as_integer() is not None, True, _ONE),
    ),
    "add": (
        Overload("quantity_add", (QUANTITY, QUANTITY), QUANTITY, add, True, _ONE),
        Overload("quantity_add_int", (QUANTITY, INT), QUANTITY, lambda q, n: add(q, _whole(n)), True, _ONE),
    ),
    "sub": (
        Overload("quantity_sub", (QUANTITY, QUANTITY), QUANTITY, subtract, True, _ONE),
        Overload("quantity_sub_int", (QUANTITY, INT), QUANTITY, lambda q, n: subtract(q, _whole(n)), True, _ONE),
    ),
}
