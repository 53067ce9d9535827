"""Measures over a grid of sizes."""
