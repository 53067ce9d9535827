"""Objects and their outlines in images."""
