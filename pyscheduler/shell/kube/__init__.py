"""How the shell talks to a Kubernetes API server: bytes out, bytes in, and what to do when that goes wrong."""
