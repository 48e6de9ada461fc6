"""Generator of random cases from a seed: a small cluster, pods to schedule, and a configuration.

A case has a few of the features in `GROUPS`, each several times, so that all features meet each other.
"""

from tests.conformance.generator.case import Case, draw
from tests.conformance.generator.features import GROUPS
from tests.conformance.generator.profiles import DEFAULT, PROFILES
from tests.conformance.generator.sequence import draw_sequence

__all__ = ["DEFAULT", "GROUPS", "PROFILES", "Case", "draw", "draw_sequence"]
