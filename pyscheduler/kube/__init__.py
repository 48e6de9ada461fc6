"""Shared by every Kubernetes client in the repository, whatever its HTTP stack: deadlines and header values."""
