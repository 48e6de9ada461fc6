"""What InterPodAffinity is made of: terms, counts by topology domain, hints."""
