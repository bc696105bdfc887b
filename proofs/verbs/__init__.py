"""The verbs that check the model, one module each: `add_arguments(parser)` and `execute(options)`.

`execute` opens the verb's `Output`, does the work, prints the answer and finishes with the report.
"""
