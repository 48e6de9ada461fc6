"""Plugins in addition to kube-scheduler's, one class per file, registered by entry points."""
