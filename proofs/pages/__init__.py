"""Makes a page for each guarantee and for each thing that is not guaranteed, with its sentence and
its evidence.

Everything on a page is read from its source: sentences and conditions from the model's own text,
theorems and their assumptions from `proofs.prove`, and all results of scopes from `Evidence`, which
is gathered once and kept next to the pages.
"""
