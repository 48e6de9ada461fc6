"""Kubernetes scheduler in Python: a pure core that decides, and a thin shell that does all I/O."""

__version__ = "0.1.0"
