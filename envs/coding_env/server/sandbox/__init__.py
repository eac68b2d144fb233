"""What runs the code: two processes apart from the server, with the standard library alone.

``supervisor`` is trusted: it starts, watches and ends the ``worker``, which runs the code confined as ``confine`` says.
The server runs the package by its path, so that neither process imports anything of the server's.
"""
