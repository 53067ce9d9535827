"""Towers over sound: frames, waveforms and what is made of them."""
