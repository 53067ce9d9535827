"""Models with a recurrent state: state spaces, linear attention, and hybrids with attention."""
