"""The four patch types of Kubernetes and field ownership, as pure functions on dicts.

No function here changes its arguments; results share the unchanged parts.
"""
