"""What PodTopologySpread is made of: constraints, the nodes they speak of, counts, scores, default selectors."""
