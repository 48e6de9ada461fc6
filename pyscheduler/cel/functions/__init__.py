"""Functions of CEL: the standard ones, and those of the libraries that Kubernetes enables."""
