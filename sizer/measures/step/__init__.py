"""One training step, op by op: a small autograd that knows shapes, types and lifetimes, and no values."""
