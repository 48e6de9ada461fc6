"""Column arithmetic of the hot path: a C extension where it could be built, otherwise NumPy (ADR 20).

On a few hundred nodes a NumPy call costs mostly overhead, and a score takes a dozen calls; the C form takes one pass.
Both forms return equal numbers (`tests/properties/test_kernels.py`). `FORM` names the one in use.
"""

from __future__ import annotations

from pyscheduler.kernels.numpy_form import BY_SHAPE, LEAST, MOST, Ints, Rows

try:
    from pyscheduler.kernels import compiled as _form

    FORM = "compiled"
except ImportError:
    from pyscheduler.kernels import numpy_form as _form  # type: ignore[no-redef]

    FORM = "NumPy"

allocation_scores = _form.allocation_scores
balance_scores = _form.balance_scores
best_by_class = _form.best_by_class
count_by_class = _form.count_by_class
count_equal = _form.count_equal
extremes = _form.extremes
gather = _form.gather
has_room = _form.has_room
nth_equal = _form.nth_equal
missing_room = _form.missing_room
nth_of_classes = _form.nth_of_classes
put = _form.put
select_classes = _form.select_classes

__all__ = [
    "BY_SHAPE",
    "FORM",
    "LEAST",
    "MOST",
    "Ints",
    "Rows",
    "allocation_scores",
    "balance_scores",
    "best_by_class",
    "count_by_class",
    "count_equal",
    "extremes",
    "gather",
    "has_room",
    "missing_room",
    "nth_equal",
    "nth_of_classes",
    "put",
    "select_classes",
]
