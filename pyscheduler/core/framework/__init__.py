"""Plugins by name, profiles of plugins by extension point, and the rules for running a point."""
