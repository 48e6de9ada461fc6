"""Verbs of the API as functions of a `ServerState`, without HTTP."""
