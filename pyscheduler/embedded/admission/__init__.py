"""What the API server does to objects before it stores them: fill in defaults, refuse what is wrong.

Covered is what a scheduler and its users meet. Left out on purpose: most of Kubernetes' validation of fields that
nothing here reads (volume sources, probes, security contexts), quota and limit-range enforcement, admission webhooks.
"""
