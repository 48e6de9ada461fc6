"""Building blocks of PodTopologySpread: constraints, eligible nodes, counts, scores, default selectors."""
