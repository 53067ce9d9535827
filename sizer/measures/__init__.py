"""Conclusions from the rows of a tree: one fold a file."""
