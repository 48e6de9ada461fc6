"""Pod groups: their members, requirements and placement."""
