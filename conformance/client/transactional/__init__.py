"""Transactional producers of any client: what they are asked to do, and what is asked of them."""
