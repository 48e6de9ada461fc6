"""A document: one node, slices, classes, claims, and the devices in use."""

from __future__ import annotations

import random
from typing import Any

from tests.devices.generator.base import Document, Draw
from tests.devices.generator.claims import draw_claims, draw_classes
from tests.devices.generator.rules import draw_rules
from tests.devices.generator.slices import draw_slices
from tests.devices.generator.usage import draw_usage

FEATURES = (
    "admin",
    "all",
    "alternatives",
    "attributes",
    "binding",
    "capacity",
    "config",
    "constraints",
    "counters",
    "generations",
    "groups",
    "invalid",
    "mistakes",
    "nodes",
    "perDevice",
    "policies",
    "rules",
    "selectors",
    "shared",
    "taints",
    "usage",
)
"""Rules that a document can exercise; each has about a third of them."""

RARE = ("admin", "groups", "invalid", "mistakes", "nodes", "perDevice")
"""Features after which often nothing can be allocated."""


def draw(seed: int, feature: str = "") -> Document:
    """Return the document of a seed; with a feature, one that has it."""
    chance = random.Random(seed)
    share = chance.choice((0.1, 0.25, 0.5))
    features = {name for name in FEATURES if chance.random() < share * (0.3 if name in RARE else 1)}
    features |= {feature} if feature else set()
    draw_ = Draw(chance, features)
    slices = draw_slices(draw_)
    classes = draw_classes(draw_)
    document: dict[str, Any] = {
        "id": seed,
        "features": sorted(features),
        "node": {"metadata": {"name": "node-1", "labels": {"zone": "a", "disk": "ssd"}}},
        "slices": slices,
        "rules": draw_rules(draw_),
        "classes": classes,
        "claims": draw_claims(draw_),
    }
    document["allocated"] = draw_usage(draw_, slices)
    return document
