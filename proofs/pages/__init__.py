"""A page for each guarantee and for each thing that is not guaranteed: what is said, and what
shows it.

Everything on a page comes from where it is known: sentences and conditions from the model's own
text, theorems and their assumptions from `proofs.prove`, and all that was seen in scopes from
`Evidence`, which is gathered once and kept beside the pages.
"""
