"""Decoders whose blocks route each token to a few of many experts."""
