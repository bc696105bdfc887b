"""The model in another language: TLA+, with its checker TLC."""
