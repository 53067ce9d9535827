"""Why somebody else's number differs from ours: the exact sum of named terms between the two."""
