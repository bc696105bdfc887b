"""What proves, of any composition: formulas, induction, steps, solvers."""
