"""A repository on a hub, read as a folder: `hub:org/name[@revision][/path]`.

Nothing here runs unless a path begins with `hub:`. `target.py` reads such a path, `client.py` makes
the requests within bounds, `repository.py` answers for one repository as a file system would.
"""
