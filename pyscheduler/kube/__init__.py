"""Client of the Kubernetes API: connections, credentials, retries and limits, decoding, list and watch."""
