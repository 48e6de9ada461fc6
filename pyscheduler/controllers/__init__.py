"""PodGroup controller: updates the status of PodGroup objects, built on kopf around one pure function.

This module imports nothing: `python -m pyscheduler.controllers` imports it before it can handle Ctrl-C.
"""
