"""The model checked: lifted, explored, proved, exported, and its mutants found."""
