"""Random comparison of `pyscheduler evaluate` with the real kube-scheduler's framework and plugins."""
