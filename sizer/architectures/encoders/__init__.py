"""Encoder-only models."""
