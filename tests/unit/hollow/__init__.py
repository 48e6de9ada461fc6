"""Unit tests of hollow nodes; a package, so that helpers can be imported."""
