"""Draws cases: a small cluster, pods to place on it, and a configuration, all told by one seed.

A case has a few of the features in `GROUPS`, each of them often, so that every feature meets every other one.
"""

from tests.conformance.generator.case import Case, draw
from tests.conformance.generator.features import GROUPS
from tests.conformance.generator.profiles import DEFAULT, PROFILES
from tests.conformance.generator.sequence import draw_sequence

__all__ = ["DEFAULT", "GROUPS", "PROFILES", "Case", "draw", "draw_sequence"]
