"""Recordings of a scheduler: the inputs of its machine and its commands, in files from which they are replayed."""
