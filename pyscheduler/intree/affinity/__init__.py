"""Building blocks of InterPodAffinity: terms, counts by topology domain, queueing hints."""
