"""Amounts of resources: of a task's requests, of all allocations, of an offer.

Integers in the scheduler's units: cpu in thousandths of a core, memory and storage in bytes, others in units.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import CPU, MEMORY, PODS, amount


class Resources(msgspec.Struct, frozen=True):
    """Amount of each resource. A missing resource is zero; in a limit it is not limited."""

    amounts: dict[str, int] = {}

    @classmethod
    def of(cls, quantities: Mapping[str, str | int | float]) -> Resources:
        """Parse Kubernetes quantities: `of({"cpu": "500m", "memory": "1Gi"})`. QuantityError names the resource."""
        amounts: dict[str, int] = {}
        for name, quantity in quantities.items():
            try:
                amounts[name] = amount(name, quantity)
            except QuantityError as problem:
                raise QuantityError(f"{name}: {problem}") from None
            if amounts[name] < 0:
                raise QuantityError(f"{name}: {quantity} is negative")
        return cls(amounts)

    @property
    def cpu(self) -> int:
        """CPU in thousandths of a core."""
        return self.amounts.get(CPU, 0)

    @property
    def memory(self) -> int:
        """Memory in bytes."""
        return self.amounts.get(MEMORY, 0)

    def __add__(self, more: Resources) -> Resources:
        return Resources({n: self.amounts.get(n, 0) + more.amounts.get(n, 0) for n in {**self.amounts, **more.amounts}})

    def __sub__(self, less: Resources) -> Resources:
        """Subtract; amounts may become negative, and zero amounts are left out."""
        left = {n: self.amounts.get(n, 0) - less.amounts.get(n, 0) for n in {**self.amounts, **less.amounts}}
        return Resources({name: count for name, count in left.items() if count})

    def __or__(self, other: Resources) -> Resources:
        """Return the larger amount of each resource."""
        names = {**self.amounts, **other.amounts}
        return Resources({n: max(self.amounts.get(n, 0), other.amounts.get(n, 0)) for n in names})

    def __bool__(self) -> bool:
        return any(self.amounts.values())

    def missing(self, limit: Resources) -> Resources:
        """Return the amounts that exceed `limit`; empty if none does. Resources missing in `limit` are not limited."""
        short = {name: self.amounts.get(name, 0) - has for name, has in limit.amounts.items()}
        return Resources({name: lack for name, lack in short.items() if lack > 0 and self.amounts.get(name, 0)})

    def fits(self, limit: Resources) -> bool:
        """Return True if no amount exceeds `limit`."""
        amounts = self.amounts
        return all(amounts.get(name, 0) <= has or not amounts.get(name) for name, has in limit.amounts.items())

    def capped(self, limit: Resources) -> Resources:
        """Return what is left of `limit` after these amounts, never below zero."""
        return Resources({name: max(0, has - self.amounts.get(name, 0)) for name, has in limit.amounts.items()})

    def __str__(self) -> str:
        return (
            ", ".join(f"{name} {_format_amount(name, count)}" for name, count in sorted(self.amounts.items()))
            or "nothing"
        )


NOTHING = Resources()
ONE_POD = Resources({PODS: 1})


def _format_amount(name: str, count: int) -> str:
    return f"{count}m" if name == CPU and count % 1000 else str(count // 1000 if name == CPU else count)
