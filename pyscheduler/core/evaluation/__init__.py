"""The evaluation of a pod without cached results."""
