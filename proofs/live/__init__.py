"""What happens in the end: fair loops in the complete graph of a scope that goes on for ever."""
