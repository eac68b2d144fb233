"""A client without model classes that notes how its hooks were called."""

from __future__ import annotations

from typing import Any

from openenv.core import HTTPEnvClient, StepResult

Json = dict[str, Any]


class PlainEnv(HTTPEnvClient[Any, Any, Any]):
    """Dicts through; `hooks` lists each call of a hook with what it was given."""

    @property
    def hooks(self) -> list[tuple[str, Any]]:
        noted: list[tuple[str, Any]] = self.__dict__.setdefault("_noted", [])
        return noted

    def _step_payload(self, action: Any) -> Json:
        self.hooks.append(("_step_payload", action))
        return dict(action)

    def _parse_result(self, payload: Json) -> StepResult[Any]:
        self.hooks.append(("_parse_result", payload))
        return StepResult(payload.get("observation"), payload.get("reward"), payload.get("done", False))

    def _parse_state(self, payload: Json) -> Any:
        self.hooks.append(("_parse_state", payload))
        return payload

    def told(self, hook: str) -> list[Any]:
        """What `hook` was given, call by call."""
        return [value for name, value in self.hooks if name == hook]


SAY = {"message": "hi"}
