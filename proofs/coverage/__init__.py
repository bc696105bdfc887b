"""What of the model's text happens in some scope: rules, branches, conjuncts, errors, pairs."""
