"""Kubernetes API client: HTTP connections, credentials, reflectors, decoders, Event recorder and writers."""
