"""Queues of batch jobs: objects, hierarchy, quotas, fair shares, and reclaim between them. No plugin by itself."""
