"""Where a model comes from: a preset, a file, a dictionary."""
