"""Writers to the API server: bindings, statuses, Events and the Lease."""
