"""Calls of Score plugins, and the evaluation of a pod without cached results."""
