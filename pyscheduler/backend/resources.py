"""Amounts of resources: what a task asks for, what all tasks hold, what an offer has left.

Whole numbers, as the scheduler counts: cpu in thousandths of a core, memory and storage in bytes, others in units.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pyscheduler.api.quantity import QuantityError
from pyscheduler.api.resources import CPU, MEMORY, PODS, amount


class Resources(msgspec.Struct, frozen=True):
    """So much of each resource. What is not named is none of it; in a limit, what is not named is not limited."""

    amounts: dict[str, int] = {}

    @classmethod
    def of(cls, quantities: Mapping[str, str | int | float]) -> Resources:
        """From Kubernetes quantities: `of({"cpu": "500m", "memory": "1Gi"})`. QuantityError names the resource."""
        found: dict[str, int] = {}
        for name, quantity in quantities.items():
            try:
                found[name] = amount(name, quantity)
            except QuantityError as problem:
                raise QuantityError(f"{name}: {problem}") from None
            if found[name] < 0:
                raise QuantityError(f"{name}: {quantity} is less than nothing")
        return cls(found)

    @property
    def cpu(self) -> int:
        """Thousandths of a core."""
        return self.amounts.get(CPU, 0)

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.amounts.get(MEMORY, 0)

    def __add__(self, more: Resources) -> Resources:
        return Resources({n: self.amounts.get(n, 0) + more.amounts.get(n, 0) for n in {**self.amounts, **more.amounts}})

    def __sub__(self, less: Resources) -> Resources:
        """Goes below zero where there is not enough; what comes to nothing is no longer named."""
        left = {n: self.amounts.get(n, 0) - less.amounts.get(n, 0) for n in {**self.amounts, **less.amounts}}
        return Resources({name: count for name, count in left.items() if count})

    def __or__(self, other: Resources) -> Resources:
        """The larger amount of each."""
        names = {**self.amounts, **other.amounts}
        return Resources({n: max(self.amounts.get(n, 0), other.amounts.get(n, 0)) for n in names})

    def __bool__(self) -> bool:
        return any(self.amounts.values())

    def missing(self, limit: Resources) -> Resources:
        """What `limit` lacks of this much; nothing where it suffices. What the limit does not name does not count."""
        short = {name: self.amounts.get(name, 0) - has for name, has in limit.amounts.items()}
        return Resources({name: lack for name, lack in short.items() if lack > 0 and self.amounts.get(name, 0)})

    def capped(self, limit: Resources) -> Resources:
        """What is left of `limit` (never below zero) once this much is taken."""
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
