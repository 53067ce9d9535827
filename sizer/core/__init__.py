"""The tree of tensors, and what may stand as a size in it."""
