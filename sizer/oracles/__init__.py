"""Truth from outside: real modules to compare a count with. None of them reads the tree."""
