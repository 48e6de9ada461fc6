"""Random choices of the generator, and the few names that everything is drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

Document = dict[str, Any]
T = TypeVar("T")

GPU = "gpu.example.com"
NIC = "nic.example.com"
DRIVERS = (GPU, NIC)
CLASSES = ("any", "gpu", "nic", "large")
MODELS = ("a", "b")
EFFECTS = ("NoSchedule", "NoExecute", "None", "Surprise")
AMOUNTS = ("1", "2", "3", "4", "1500m", "4Gi", "2Gi", "500m", "10", "6")


class Draw:
    """Random numbers of one document, and its features."""

    def __init__(self, chance: random.Random, features: set[str]) -> None:
        self.random = chance
        self.features = features

    def has(self, feature: str) -> bool:
        """Return True if the document has the feature."""
        return feature in self.features

    def often(self, feature: str, probability: float = 0.5) -> bool:
        """Return True with the probability if the document has the feature, otherwise never."""
        return feature in self.features and self.random.random() < probability

    def maybe(self, probability: float) -> bool:
        """Return True with the probability."""
        return self.random.random() < probability

    def of(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return self.random.choice(values)

    def some(self, values: Sequence[T], most: int) -> list[T]:
        """Return up to `most` different values, at least one."""
        return self.random.sample(values, self.random.randint(1, min(most, len(values))))

    def number(self, least: int, most: int) -> int:
        """Return an integer between the two."""
        return self.random.randint(least, most)
