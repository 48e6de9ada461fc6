"""What is written to the API server: bindings, statuses, Events and the Lease."""
