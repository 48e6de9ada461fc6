"""Unit tests of workload controllers; a package, so that helpers can be imported."""
