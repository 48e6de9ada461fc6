"""The scheduling cycle: from a popped pod to its binding."""
