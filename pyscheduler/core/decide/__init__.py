"""The scheduling cycle as a function of the state: filter nodes, score them, select one or return a diagnosis."""
