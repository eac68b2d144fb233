"""Runs Python code, a step at a time, in an interpreter of its own."""

from envs.coding_env.client import CodingEnv
from envs.coding_env.models import CodeAction, CodeObservation, CodeState

__all__ = ["CodeAction", "CodeObservation", "CodeState", "CodingEnv"]
