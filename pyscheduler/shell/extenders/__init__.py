"""HTTP extenders: wire format, HTTP client and raw JSON objects for the requests."""
