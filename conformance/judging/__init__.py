"""What judges: systems and their interface, lockstep, plans, findings, reports."""
