"""Kubernetes API server in one process, without etcd and without containers, for trials, tests and simulations."""

from __future__ import annotations

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.server import ApiServer, ApiServerError

__all__ = ["Api", "ApiServer", "ApiServerError"]
