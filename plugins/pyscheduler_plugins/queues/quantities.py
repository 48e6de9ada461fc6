"""Amounts of resources as text."""

from __future__ import annotations

from collections.abc import Mapping

from pyscheduler.api.resources import CPU, MEMORY

_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def format_amount(resource: str, amount: int) -> str:
    """Return the exact amount: `2.5 cpu` for 2,500 milli-cores, `4Gi memory`, `3 nvidia.com/gpu`."""
    if resource == CPU:
        return f"{_cores(amount)} {CPU}"
    return f"{_binary(amount) if resource == MEMORY else amount} {resource}"


def format_amounts(amounts: Mapping[str, int]) -> str:
    """Return all amounts, separated by commas; cpu first."""
    ordered = sorted(amounts.items(), key=lambda item: (item[0] != CPU, item[0]))
    return ", ".join(format_amount(resource, amount) for resource, amount in ordered)


def _cores(milli: int) -> str:
    whole, rest = divmod(abs(milli), 1000)
    fraction = f".{rest:03}".rstrip("0") if rest else ""
    return f"{'-' if milli < 0 else ''}{whole}{fraction}"


def _binary(amount: int) -> str:
    power = 0
    while amount and amount % 1024 == 0 and power < len(_BINARY_UNITS) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY_UNITS[power]}"
