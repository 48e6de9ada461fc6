"""Dry runs of evictions, and the evictions that follow."""
