"""The verbs of the API as plain functions of a `ServerState`: what a request means, without HTTP."""
