"""How an environment is called: what its methods take, where they run, and what becomes of what they return."""

from __future__ import annotations

import asyncio
import inspect
import re
import traceback
from collections.abc import Callable
from typing import Any

from openenv.core import codec
from openenv.core.errors import DecodeError, EncodeError
from openenv.core.logs import logger
from openenv.server.plan import Invalid, Plan
from openenv.server.session import RESET, STATE, STEP, Call, Reply, encode, refusal
from openenv.server.threads import Worker, Workers

log = logger("server")

_PATH_PART = re.compile(r"\[(\d+)\]|\.?([^.\[]+)|\[")
_MISSING_FIELD = re.compile(r"missing required field `([^`]+)`")


class Raised(Exception):
    """The environment raised ``error``."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class Runner:
    """What all environments of one app share.

    Args:
        factory: Makes an environment.
        action_type: The dataclass of actions, or ``dict`` for anything.
        workers: Threads for what blocks.
        tracebacks: Errors tell the traceback of the environment.
    """

    def __init__(self, factory: Callable[[], Any], action_type: type, workers: Workers, tracebacks: bool) -> None:
        self.factory = factory
        self.action_type = action_type
        self.workers = workers
        self.tracebacks = tracebacks
        known = getattr(action_type, "__dataclass_fields__", {})
        #: Members of a bare action's body that are no fields of the action.
        self.beside_action = frozenset({"timeout_s", "request_id"}) - frozenset(known)

    def action(self, given: dict[str, Any]) -> Any:
        payload = given.get("action")
        if not isinstance(payload, dict):
            payload = {name: value for name, value in given.items() if name not in self.beside_action}
        try:
            return codec.strict_decode(self.action_type, payload, where="action")
        except DecodeError as error:
            known = error.expected.startswith("one of ")
            message = (
                f"unknown field; {self.action_type.__name__} has {error.expected[7:]}" if known else error.expected
            )
            raise Invalid(_location(error.path, error.expected), message) from None

    def failure(self, call: Call, error: Exception) -> Reply:
        """The answer to a call that raised."""
        if isinstance(error, Invalid):
            message = f"{'.'.join(str(part) for part in error.errors[0]['loc'])}: {error}"
            return refusal(call, 422, "VALIDATION_ERROR", message, errors=error.errors)
        if isinstance(error, EncodeError):
            return refusal(call, 500, "ENCODE_ERROR", str(error), type=type(error).__name__, path=error.path)
        if isinstance(error, Raised):
            return self.raised(call, "EXECUTION_ERROR", error.error)
        return self.raised(call, "INTERNAL_ERROR", error)

    def raised(self, call: Call, code: str, error: BaseException) -> Reply:
        """The answer to a call in which other people's code raised ``error``."""
        kind = type(error).__name__
        trace = "".join(traceback.format_exception(error))
        if not isinstance(error, asyncio.CancelledError):  # nobody waits for it any more
            log.warning("%s in /%s, request %s: %s", code, call.op, call.request_id.decode("latin-1"), trace.rstrip())
        detail = {"type": kind, "traceback": trace} if self.tracebacks else {"type": kind}
        return refusal(call, 500, code, str(error) or kind, **detail)


def _location(path: str, reason: str) -> list[Any]:
    parts: list[Any] = [int(index) if index else name for index, name in _PATH_PART.findall(path)]
    missing = _MISSING_FIELD.search(reason)
    return [part for part in parts if part != "...]"] + ([missing.group(1)] if missing else [])


class Handle:
    """One environment, from the moment its slot is taken until the moment it is given back.

    Attributes:
        busy: Something runs in it, its construction included.
        abandoned: Nobody wants it any more; it is closed when what runs in it returns.
        closing: It is being closed.
    """

    __slots__ = ("_runner", "_worker", "abandoned", "busy", "closing", "env", "plan", "task")

    def __init__(self, runner: Runner) -> None:
        self.env: Any = None
        self.plan: Plan | None = None
        self.busy = True
        self.abandoned = False
        self.closing = False
        self.task: asyncio.Task[Any] | None = None
        self._runner = runner
        self._worker: Worker | None = None

    async def make(self) -> None:
        """Construct the environment, on a thread.

        Raises:
            Exception: Whatever the factory raised.
        """
        workers = self._runner.workers
        worker = workers.take()
        worker.kept = True
        try:
            self.env, self.plan = await worker.run(self._construct)
        finally:
            if self.plan is not None and self.plan.bound:
                self._worker = worker
            else:
                workers.give_back(worker)

    def _construct(self) -> tuple[Any, Plan]:
        env = self._runner.factory()
        return env, Plan(env)

    def is_inline(self, op: str) -> bool:
        return self.plan is not None and op in self.plan.inline

    def perform(self, call: Call) -> Reply:
        """Do ``call`` here and now. Never raises."""
        try:
            return self._shape(call, self._invoke(call))
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            return self._runner.failure(call, error)

    async def run(self, call: Call) -> Reply:
        """Do ``call`` where the environment wants it done. Never raises."""
        assert self.plan is not None
        if call.op in self.plan.coroutine:
            return await self._await(call)
        if call.op in self.plan.inline:
            return self.perform(call)
        reply: Reply = await self._on_thread(self.perform, call)
        return reply

    async def _await(self, call: Call) -> Reply:
        self.task = task = asyncio.current_task()
        try:
            pending = self._invoke(call)
            try:
                result = await pending
            except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001
                raise Raised(error) from None
            return self._shape(call, result)
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            return self._runner.failure(call, error)
        finally:
            self.task = None
            while task is not None and task.cancelling():
                task.uncancel()

    def interrupt(self) -> None:
        """Cancel the coroutine that runs in the environment, if one does. A thread cannot be stopped."""
        if self.task is not None:
            self.task.cancel()

    async def close(self) -> None:
        """Close the environment, once; errors are logged."""
        if self.closing:
            return
        self.closing = True
        assert self.plan is not None
        close = getattr(self.env, "close", None)
        try:
            if close is None:
                pass
            elif "close" in self.plan.coroutine:
                await close()
            elif "close" in self.plan.inline:
                close()
            else:
                await self._on_thread(close)
        except (Exception, SystemExit):
            log.warning("%s.close() failed", self.plan.kind, exc_info=True)
        finally:
            if self._worker is not None:
                self._runner.workers.give_back(self._worker)
                self._worker = None

    async def close_by_force(self) -> None:
        """Close an environment that is still in a call, on another thread: the process is about to end."""
        self._worker = None
        if self.plan is not None:
            await self.close()

    def _on_thread(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        worker = self._worker
        return (worker if worker is not None else self._runner.workers.take()).run(function, *arguments)

    def _invoke(self, call: Call) -> Any:
        """Call the environment: what it returns, an awaitable where it is a coroutine function."""
        plan, env, op = self.plan, self.env, call.op
        assert plan is not None
        if call.flaw is not None:
            raise Invalid(call.flaw["loc"], call.flaw["msg"])
        argument: Any = None
        if op is STEP:
            argument = self._runner.action(call.value)
        elif op is RESET:
            argument = plan.fit_options(call.value)
        try:
            if op is STEP:
                return env.step(argument, timeout_s=call.limit) if plan.step_takes_limit else env.step(argument)
            if op is RESET:
                return env.reset(**argument)
            return env.state() if plan.state_is_method else env.state
        except (Exception, SystemExit) as error:  # noqa: BLE001
            raise Raised(error) from None

    def _shape(self, call: Call, result: Any) -> Reply:
        if inspect.iscoroutine(result):
            result.close()
            raise Raised(TypeError(f"{self._name(call)} returned a coroutine; declare it with async def"))
        try:
            fields = codec.fields(result)
        except EncodeError:
            raise Raised(
                TypeError(f"{self._name(call)} must return a dataclass or a dict; it returned {result!r:.80}")
            ) from None
        if call.op is STATE:
            return Reply(200, encode(fields, call.media), call.media)
        answer = {"observation": fields, "reward": fields.pop("reward", None), "done": fields.pop("done", False)}
        metadata = fields.get("metadata")
        if metadata:
            answer["metadata"] = metadata
        else:
            fields.pop("metadata", None)
        for name in ("terminated", "truncated"):
            if name in fields:
                said = fields.pop(name)
                if said is not None:
                    answer[name] = said
        return Reply(200, encode(answer, call.media), call.media)

    def _name(self, call: Call) -> str:
        return f"{type(self.env).__name__}.{call.op}"
