"""A Kubernetes scheduler in Python: a pure core that decides, a thin shell that acts."""

__version__ = "0.1.0"
