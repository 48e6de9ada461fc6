"""Simulator: the scheduler's core in virtual time, with pods that end after their run times, and a report."""
