"""Measurements of the scheduler beside others, on a real API server."""
