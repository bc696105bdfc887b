"""Brokers in processes of their own, the loads that they get, and the clients that produce."""
