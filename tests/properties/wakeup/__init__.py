"""The property that no pod stays parked once it fits: a cluster of the conformance generator among random events."""
