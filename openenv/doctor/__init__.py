"""What is right and what is wrong with this machine, its Docker engine and a server; cause and remedy for each."""

from __future__ import annotations

from openenv.doctor.examine import examine
from openenv.doctor.finding import Finding, Status

__all__ = ["Finding", "Status", "examine"]
