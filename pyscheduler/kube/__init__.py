"""Code shared by all Kubernetes clients of the repository: deadlines and header values."""
