"""The inverse of a count: the sizes that have a total."""
