"""One file a family: its configuration, its builder, its registration."""
