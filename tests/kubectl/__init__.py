"""The real kubectl against the embedded API server."""
