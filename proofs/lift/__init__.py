"""Lifts the model's text: source, checks of the subset, symbolic values, evaluation, graph, and the
forms printed from the graph."""
