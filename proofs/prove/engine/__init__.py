"""The engine of the proofs: formulas, inductions, steps and solvers, for any composition."""
