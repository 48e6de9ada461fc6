"""Tests of their own namespace, so that helpers can be imported."""
