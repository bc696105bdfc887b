"""Coordinators and leaders together, held to the model of transactions."""
