"""The verbs of the API as plain functions of a `World`: what a request means, without HTTP."""
