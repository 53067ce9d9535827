"""The bytes of a checkpoint before it exists: what each format stores, and how a container lays it out."""
