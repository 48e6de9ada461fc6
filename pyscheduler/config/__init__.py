"""Configuration loading: read, decode, discover plugins, expand profiles, validate.

All errors of a file are reported at once with YAML path and line. Nothing here starts a component.
"""
