"""Fixtures of the client's tests."""

from tests.unit.kube.fixtures import api, clock, connection, kubeconfig

__all__ = ["api", "clock", "connection", "kubeconfig"]
