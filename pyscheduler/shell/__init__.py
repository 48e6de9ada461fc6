"""I/O around the core: API client, event loop, clock, logs, metrics and HTTPS endpoints."""
