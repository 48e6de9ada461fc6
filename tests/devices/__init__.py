"""Allocation of devices compared with kube-scheduler's allocator."""
