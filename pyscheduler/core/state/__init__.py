"""The cluster in columns: one row per node, kept up to date event by event, undone trial by trial."""

from pyscheduler.core.state.cluster import ClusterState
from pyscheduler.core.state.shapes import Shapes

__all__ = ["ClusterState", "Shapes"]
