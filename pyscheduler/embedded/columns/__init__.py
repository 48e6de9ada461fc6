"""What `kubectl get` shows: the server renders tables, so each kind's columns live here.

Names, order and priorities are those of Kubernetes (pkg/printers/internalversion); kinds without columns of their own
show NAME and AGE.
"""
