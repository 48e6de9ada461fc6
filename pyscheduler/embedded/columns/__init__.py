"""Columns of `kubectl get` by kind: the server renders the tables.

Names, order and priorities are those of Kubernetes (pkg/printers/internalversion); kinds without columns of their own
have NAME and AGE.
"""
