"""Models of two stacks: an encoder, and a decoder that attends to it."""
