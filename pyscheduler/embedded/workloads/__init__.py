"""The few controllers of kube-controller-manager that a cluster to try things on cannot do without."""

from pyscheduler.embedded.workloads.manager import ControllerManager, ControllerSettings

__all__ = ["ControllerManager", "ControllerSettings"]
