"""Checkpoints: what files of weights hold, read from their headers alone.

`read.py` finds the format of a path; each format has a file of its own, which answers with a
`Contents` of `StoredTensor`s (`stored.py`). `logical` says which weights the stored tensors stand for.
"""
