"""Allocation of devices to ResourceClaims (dynamic resources, KEP-4381).

A plain function of node, slices, classes, claims and the devices in use. Results are those of kube-scheduler 1.37 with
the features that it has on by default: the order of the search decides, see `search.py`.
"""
