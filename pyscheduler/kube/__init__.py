"""What every Kubernetes client in the repository shares, whatever its HTTP stack: deadlines and header values."""
