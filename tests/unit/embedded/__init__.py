"""Unit tests of the embedded API server."""
