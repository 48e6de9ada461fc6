"""Parsing of fields that claims, volumes and capacities have in common."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from pyscheduler.api import Selector
from pyscheduler.api.match import SelectorError
from pyscheduler.api.objects import LabelSelector
from pyscheduler.api.quantity import QuantityError, milli_value, value
from pyscheduler.intree._label_selectors import read_selector
from pyscheduler.intree.volumes.objects import Object, text


class Amount(NamedTuple):
    """A quantity, exact to a thousandth; amounts compare as the quantities do, without a limit."""

    units: int
    thousandths: int


def amount(source: Any) -> Amount:
    """Parse a quantity of a JSON object; 0 if it is missing or invalid."""
    if isinstance(source, str | int | float):
        try:
            return Amount(value(source), milli_value(source))
        except QuantityError:
            pass
    return Amount(0, 0)


def volume_kind(source: Object) -> tuple[str, str]:
    """Return volumeMode and volumeAttributesClassName of a claim or volume."""
    return text(source, "spec", "volumeMode") or "Filesystem", text(source, "spec", "volumeAttributesClassName")


def read_label_selector(source: Any) -> Selector | None:
    """Compile a metav1.LabelSelector from JSON; None (absent) stays None. SelectorError if it is invalid."""
    if source is None:
        return None
    try:
        return read_selector(msgspec.convert(source, LabelSelector))
    except msgspec.ValidationError as problem:
        raise SelectorError(str(problem)) from None
