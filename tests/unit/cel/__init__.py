"""Tests of the CEL evaluator."""
