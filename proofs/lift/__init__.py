"""From the model's text to its forms: text, subset, values, evaluation, graph, printed forms."""
