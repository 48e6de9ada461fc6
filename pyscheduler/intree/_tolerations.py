"""Taints that a pod does not tolerate; large sets of tolerations are looked up by key instead of scanned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from pyscheduler.api import PodSignature, Taint, Toleration
from pyscheduler.api.match import tolerates

_FEW = 16
"""Number of tolerations up to which scanning them is as fast."""


class TolerationSet:
    """Tolerations by effect, key and value. `api.match.tolerates` is the specification."""

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._any_value: set[tuple[str, str]] = set()
        self._one_value: set[tuple[str, str, str]] = set()
        for toleration in tolerations:
            if toleration.operator == "Exists":
                self._any_value.add((toleration.effect, toleration.key))
            elif toleration.operator in ("", "Equal"):
                self._one_value.add((toleration.effect, toleration.key, toleration.value))

    def tolerates(self, taint: Taint) -> bool:
        """Return True if any toleration covers the taint."""
        return any(
            (effect, key) in self._any_value or (effect, key, taint.value) in self._one_value
            for effect in (taint.effect, "")
            for key in (taint.key, "")
        )


_sets: WeakKeyDictionary[PodSignature, TolerationSet] = WeakKeyDictionary()
"""By signature, only those with many tolerations. An entry is dropped with the last pod of its signature."""


def untolerated(signature: PodSignature, taints: Iterable[Taint], effects: tuple[str, ...]) -> Iterator[Taint]:
    """Return the taints with one of `effects` that the pod does not tolerate."""
    tolerations = signature.tolerations
    if len(tolerations) <= _FEW:
        return (t for t in taints if t.effect in effects and not any(tolerates(each, t) for each in tolerations))
    cached = _sets.get(signature)
    if cached is None:
        cached = _sets[signature] = TolerationSet(tolerations)
    return (taint for taint in taints if taint.effect in effects and not cached.tolerates(taint))


def has_untolerated(signature: PodSignature, taints: Iterable[Taint], effects: tuple[str, ...]) -> bool:
    """Return True if the pod does not tolerate some taint with one of `effects`."""
    return next(untolerated(signature, taints, effects), None) is not None
