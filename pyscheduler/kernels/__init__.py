"""Column arithmetic of the hot path: a C extension where it could be built, otherwise NumPy (ADR 20).

On a few hundred nodes a NumPy call costs mostly overhead, and a score takes a dozen calls; the C form takes one pass.
Both forms return equal numbers (`tests/properties/test_kernels.py`). `FORM` names the one in use.
"""

from __future__ import annotations

from pyscheduler.kernels.numpy_form import BLOCK, BY_SHAPE, LEAST, MOST, Classes, Ints, Masks, Rows, Totals

try:
    from pyscheduler.kernels import compiled as _form

    FORM = "compiled"
except ImportError:
    from pyscheduler.kernels import numpy_form as _form  # type: ignore[no-redef]

    FORM = "NumPy"

add_by_class = _form.add_by_class
add_scores = _form.add_scores
allocation_scores = _form.allocation_scores
balance_scores = _form.balance_scores
count_by_class = _form.count_by_class
count_equal = _form.count_equal
extremes = _form.extremes
gather = _form.gather
has_room = _form.has_room
missing_room = _form.missing_room
pick_by_class = _form.pick_by_class
pick_top = _form.pick_top
put = _form.put
refresh_tops = _form.refresh_tops
reprieve = _form.reprieve
rounded_sums = _form.rounded_sums
victim_losses = _form.victim_losses

__all__ = [
    "BLOCK",
    "BY_SHAPE",
    "FORM",
    "LEAST",
    "MOST",
    "Classes",
    "Ints",
    "Masks",
    "Rows",
    "Totals",
    "add_by_class",
    "add_scores",
    "allocation_scores",
    "balance_scores",
    "count_by_class",
    "count_equal",
    "extremes",
    "gather",
    "has_room",
    "missing_room",
    "pick_by_class",
    "pick_top",
    "put",
    "refresh_tops",
    "reprieve",
    "rounded_sums",
    "victim_losses",
]
