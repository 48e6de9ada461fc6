"""Pod groups as users declare them: a reader for each API, and the plugin PodGroups that joins the readers."""

from pyscheduler_plugins.pod_groups.plugin import PodGroups

__all__ = ["PodGroups"]
