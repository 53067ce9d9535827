"""Decoder-only models with one dense MLP a block."""
