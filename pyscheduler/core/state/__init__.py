"""The cluster in columns: one row per node, kept up to date event by event, undone trial by trial."""

from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.signatures import PodSignatures

__all__ = ["ClusterState", "PodSignatures"]
