"""sizer beside the public peers: what each says of eight models, how long it takes, how large it is.

    python -m benchmarks peers [--rounds N] [--cache FOLDER] [--only NAME,…]

Each peer is installed in an environment of its own, those on torch in one, under `--cache`. It is
asked in its own way: a configuration, files, a name, or a hub, which here is a small one on the
loopback. The page `docs/benchmarks.md` is written from what was measured.
"""
