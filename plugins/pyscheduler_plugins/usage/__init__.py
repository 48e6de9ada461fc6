"""Placement by the measured usage of nodes: the plugin Usage, and the samples that it reads."""
