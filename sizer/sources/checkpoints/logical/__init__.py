"""From stored tensors to the weights they stand for: one file a family of quantized formats.

The tensors decide. A configuration is asked only for what shapes leave open, such as the bits of a
packed word, and is then checked against them; so modules left unquantized need no list.
"""
