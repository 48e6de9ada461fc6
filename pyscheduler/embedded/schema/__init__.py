"""What shape objects have: to refuse wrong types, to name unknown fields, and to merge lists as Kubernetes does."""
