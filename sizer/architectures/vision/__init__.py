"""Towers over images: convolutions, patches and windows."""
