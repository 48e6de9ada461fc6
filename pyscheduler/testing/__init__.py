"""Public test kit: builders for pods and nodes, and a harness that runs the scheduler core in virtual time."""

from pyscheduler.testing.builders import NodeBuilder, PodBuilder, node, pod
from pyscheduler.testing.cached_results import assert_cache_agrees
from pyscheduler.testing.conformance import assert_forms_agree
from pyscheduler.testing.harness import Harness
from pyscheduler.testing.results import HarnessResults

__all__ = [
    "Harness",
    "HarnessResults",
    "NodeBuilder",
    "PodBuilder",
    "assert_cache_agrees",
    "assert_forms_agree",
    "node",
    "pod",
]
