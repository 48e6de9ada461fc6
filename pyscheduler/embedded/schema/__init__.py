"""Schemas of objects: to reject wrong types, to report unknown fields, and to merge lists as Kubernetes does."""
