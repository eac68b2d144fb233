"""The Atari environment's server."""
