"""The model in other people's languages: TLA+ with its checker TLC."""
