"""HTTP extenders in the scheduling cycle."""
