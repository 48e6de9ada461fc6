"""Cluster state in columns: one row per node, updated by each event, with rollback of dry runs."""

from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.signatures import PodSignatures

__all__ = ["ClusterState", "PodSignatures"]
