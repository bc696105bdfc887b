"""The job that proves all theorems: it plans obligations, asks solvers, checks scopes and
reports."""
