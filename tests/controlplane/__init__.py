"""The real Kubernetes control plane, built from source and run on loopback for the tests."""
