"""Binding cycles: how one is run, who runs them, how many at once, and how one is ended before its time."""
