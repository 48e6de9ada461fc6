"""The four kinds of patch that Kubernetes knows, and who owns which field. All plain functions on dicts.

No function here changes what it is given; results share the parts that stay.
"""
