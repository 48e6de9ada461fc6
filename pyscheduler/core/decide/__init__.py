"""One scheduling cycle, as a function of the state: find the nodes that fit, rank them, pick one, or say why not."""
