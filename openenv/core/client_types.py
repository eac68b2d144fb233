"""Old name of :mod:`openenv.core.types`."""

from openenv.core.types import StepResult as StepResult
