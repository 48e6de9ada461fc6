"""Controllers of kube-controller-manager that an embedded cluster needs: workloads and node lifecycle."""

from pyscheduler.embedded.workloads.manager import ControllerManager, ControllerSettings

__all__ = ["ControllerManager", "ControllerSettings"]
