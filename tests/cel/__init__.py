"""Comparison of `pyscheduler.cel` with Kubernetes' own evaluation of device selectors (tests/controlplane/cmd/cel)."""
