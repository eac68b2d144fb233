"""Many environments, stepped together."""

from __future__ import annotations

from openenv._lazy import lazy_names

_NAMES = {
    "EnvPool": "openenv.pool.pool",
    "PoolResult": "openenv.pool.results",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES)
