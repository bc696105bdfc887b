"""Coordinators and leaders together, compared with the model of transactions."""
