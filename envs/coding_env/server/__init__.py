"""The coding environment's server."""
