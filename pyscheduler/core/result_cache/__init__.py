"""Results of Filter and Score plugins, cached for the next pod of the same signature."""
