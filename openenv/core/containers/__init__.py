"""The old home of :mod:`openenv.containers`."""
