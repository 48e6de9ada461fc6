"""Benchmarks of the scheduler against others, on a real API server."""
