"""Admission: set defaults on objects and reject invalid ones before they are stored.

It covers what a scheduler and its users depend on. Omitted on purpose: most of Kubernetes' validation of fields that
nothing here reads (volume sources, probes, security contexts), quota and limit-range enforcement, admission webhooks.
"""
