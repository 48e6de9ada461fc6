"""Building blocks of DefaultPreemption: victims, PodDisruptionBudgets, the dry-run cache, Go's unstable sort."""
