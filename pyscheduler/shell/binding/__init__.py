"""Binding cycles: execution, worker pool, concurrency limit and cancellation."""
