"""A Kubernetes API server in one process: for trying, testing and simulating, without etcd and without containers."""

from __future__ import annotations

from pyscheduler.embedded.api import Api
from pyscheduler.embedded.server import ApiServer, ApiServerError

__all__ = ["Api", "ApiServer", "ApiServerError"]
