"""Coverage of the model's text by scopes: rules, branches, conjuncts, errors, pairs of events."""
