"""The property that no pod stays parked once it fits: a generated cluster with random events."""
