"""Environments in other people's tools: one module for each, loaded only when it is imported."""
