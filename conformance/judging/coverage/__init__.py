"""Coverage: the parts of `impl` and of the model that traces execute, and the parts that they never
do."""
