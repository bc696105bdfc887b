"""A broker over its wire, held to the model of its leader."""
