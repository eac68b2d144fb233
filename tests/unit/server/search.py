"""Clients as docs/protocol.md wants them, and a network that loses, delays, doubles and reorders what they say.

Everything is drawn from one seed and happens in virtual time. :func:`search` raises :class:`Broken` where the server
breaks a promise of the protocol.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import msgspec

from openenv.core import codec
from openenv.core.types import State
from openenv.server.environment import Environment
from tests.unit.server.asgi import Answer, Client, SimulatedWorkers, simulate, simulated_app

MAX_SESSIONS = 3
CLIENTS = 4
CALLS = 14
IDLE_S = 150.0
#: Longer than any message is under way, and than any session may be idle.
SETTLED_S = 400.0


class Broken(AssertionError):
    """A promise of the protocol was broken."""


def promise(kept: object, what: str) -> None:
    if not kept:
        raise Broken(what)


class World:
    """What really happened on the server."""

    def __init__(self) -> None:
        self.workers = SimulatedWorkers()
        self.made: list[Traced] = []
        self.ran: set[tuple[str, int]] = set()
        self.deleted: set[str] = set()
        self.overran: set[str] = set()
        self.broken: list[str] = []

    def promise(self, kept: object, what: str) -> None:
        """As :func:`promise`, in an environment, whose errors the server turns into answers."""
        if not kept:
            self.broken.append(what)
            raise Broken(what)

    def factory(self) -> Traced:
        self.promise(sum(env.closed == 0 for env in self.made) < MAX_SESSIONS, "more environments than there may be")
        self.made.append(Traced(self))
        return self.made[-1]


class Traced(Environment[dict[str, Any], dict[str, Any], State]):
    """Checks that what it is told to do may be done."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = State()
        self.session = ""
        self.last = 0
        self.busy_until = 0.0
        self.closed = 0

    def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        session, number = call["session"], call["number"]
        now = asyncio.get_running_loop().time()
        self.world.promise(not self.closed, f"{session} {number}: ran in a closed environment")
        self.world.promise(now >= self.busy_until, f"{session} {number}: ran while another call did")
        self.world.promise((session, number) not in self.world.ran, f"{session} {number}: ran twice")
        self.world.promise(session not in self.world.deleted, f"{session} {number}: ran after the session was deleted")
        self.world.promise(
            self.session in ("", session), f"{session} {number}: ran in an environment of {self.session}"
        )
        self.world.ran.add((session, number))
        self.session, self.last = session, number
        self.busy_until = now + call["block"] - 1e-6  # timers are as exact as floats are
        self.world.workers.block(call["block"])
        if call["raise"]:
            raise ValueError(f"{session} {number}")
        return {"session": session, "number": number}

    def reset(self, **call: Any) -> dict[str, Any]:
        self.world.overran.discard(call["session"])
        return self._run(call)

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        session, number = action["session"], action["number"]
        self.world.promise(number == self.last + 1, f"{session} {number}: ran after {self.last}")
        self.world.promise(session not in self.world.overran, f"{session} {number}: ran after a call that overran")
        return self._run(action)

    def close(self) -> None:
        self.closed += 1
        self.world.promise(self.closed == 1, "closed twice")
        self.world.promise(asyncio.get_running_loop().time() >= self.busy_until, "closed in the middle of a call")


class Network:
    """Loses, delays, doubles and reorders requests, and loses and delays answers."""

    def __init__(self, client: Client, dice: random.Random) -> None:
        self.client = client
        self.dice = dice
        self.under_way: set[asyncio.Task[Answer]] = set()
        self.recent: list[tuple[float, Any]] = []

    async def ask(self, patience_s: float, method: str, path: str, value: Any, **ids: Any) -> Answer | None:
        """The answer, where it comes within ``patience_s``."""
        copies = self.dice.choices([0, 1, 2, 3], [15, 60, 20, 5])[0]
        deliveries = [asyncio.create_task(self._deliver(method, path, value, ids)) for _ in range(copies)]
        self.under_way.update(deliveries)
        if not deliveries or self.dice.random() < 0.15:
            await asyncio.sleep(patience_s)
            return None
        # Only one of the copies is the connection that the client listens on.
        done, _ = await asyncio.wait(deliveries[:1], timeout=patience_s)
        return done.pop().result() if done else None

    async def _deliver(self, method: str, path: str, value: Any, ids: dict[str, Any]) -> Answer:
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 0.5, 3.0, 30.0]))
        if method == "POST" and self.dice.random() < 0.4:
            answer = await self._deliver_in_batch(path, value, ids)
        else:
            answer = await self.client.call(method, path, value, **ids)
        await asyncio.sleep(self.dice.choice([0.0, 0.01, 5.0]))
        return answer

    async def _deliver_in_batch(self, path: str, value: Any, ids: dict[str, Any]) -> Answer:
        """The same call in a batch, together with calls that were made before, by whomever."""
        said = ids["headers"].get("openenv-timeout") if path == "/reset" else value.get("timeout_s")
        limit = None if said is None else float(said)
        entry = [ids["session"], ids["seq"], path[1:], limit, msgspec.Raw(codec.to_json(value))]
        now = asyncio.get_running_loop().time()
        # No message is under way for longer: the ids of sessions that are over are not remembered for ever.
        self.recent = [(since, call) for since, call in self.recent[-20:] if now - since < 60.0]
        before = self.dice.sample(self.recent, min(len(self.recent), self.dice.choice([0, 0, 1, 2])))
        entries = [*(call for _, call in before), entry]
        self.recent.append((now, entry))
        batch: dict[str, Any] = {"calls": entries}
        if self.dice.random() < 0.3:
            batch["min_ready"] = self.dice.randint(0, len(entries))
        if self.dice.random() < 0.3:
            batch["within_s"] = self.dice.choice([0, 0.05, 5])
        answer = await self.client.call("POST", "/batch", body=msgspec.json.encode(batch))
        promise(answer.status == 200, f"a batch was answered {answer!r}")
        session, seq, status, _, body = answer.value["replies"][-1]
        headers = {"openenv-session": session} | ({} if seq is None else {"openenv-seq": str(seq)})
        sent = [(name.encode(), text.encode()) for name, text in headers.items()]
        return Answer(status, sent, codec.to_json(body))


class Player:
    """One client: it retries with the same number and bytes, and resets after what it does not know."""

    def __init__(self, name: str, network: Network, world: World, dice: random.Random) -> None:
        self.name = name
        self.network = network
        self.world = world
        self.dice = dice
        self.sessions = 0
        self._new_session()

    def _new_session(self) -> None:
        self.sessions += 1
        self.session = f"{self.name}-session-number-{self.sessions:04}"
        self.number = 0
        self.has_to_reset = True

    async def play(self) -> None:
        for _ in range(CALLS):
            await asyncio.sleep(self.dice.choice([0.0, 0.0, 1.0, 20.0, IDLE_S + 20]))
            drawn = self.dice.random()
            if drawn < 0.08:
                await self._delete()
            elif self.has_to_reset or drawn < 0.2:
                await self._call("/reset")
            elif drawn < 0.3:
                await self._state()
            else:
                await self._call("/step")
        if self.dice.random() < 0.5:
            await self._delete()

    async def _call(self, path: str) -> None:
        self.number += 1
        call = {
            "session": self.session,
            "number": self.number,
            "block": self.dice.choice([0.0, 0.0, 0.1, 4.0, 40.0]),
            "raise": self.dice.random() < 0.05,
        }
        limit = self.dice.choice([None, None, 2.0, 20.0])
        headers = {}
        value: dict[str, Any] = call
        if path == "/step":
            value = {"action": call, "timeout_s": limit}
        elif limit is not None:
            headers = {"openenv-timeout": str(limit)}
        answer = None
        for _ in range(self.dice.randint(1, 6)):
            answer = await self.network.ask(
                self.dice.choice([1.0, 10.0, 60.0]),
                "POST",
                path,
                value,
                session=self.session,
                seq=self.number,
                headers=headers,
            )
            if answer is not None and answer.status != 202:
                break
        self._hear(path, answer)

    def _hear(self, path: str, answer: Answer | None) -> None:
        """Check an answer, and draw the conclusions that a client must draw."""
        if answer is None or answer.status == 202:
            self._guess()  # nobody knows
            return
        about = f"{self.session} {self.number}: {answer!r}"
        promise(answer.headers["openenv-session"] == self.session, f"another session's answer to {about}")
        promise(answer.seq in (None, str(self.number)), f"another number's answer to {about}")
        if answer.status == 200:
            said = answer.value["observation"]
            promise((said["session"], said["number"]) == (self.session, self.number), f"a wrong answer to {about}")
            promise((self.session, self.number) in self.world.ran, f"an answer without a call to {about}")
            self.has_to_reset = False
        elif answer.code == "EXECUTION_ERROR":
            promise(answer.value["error"]["message"] == f"{self.session} {self.number}", f"a wrong error to {about}")
            self.has_to_reset = self.has_to_reset or path == "/reset"
        elif answer.code in ("STEP_TIMEOUT", "RESET_TIMEOUT"):
            self.world.overran.add(self.session)
            self._guess()
        elif answer.code == "SESSION_CLOSED":
            self._new_session()
        else:
            known = ("CAPACITY_REACHED", "RESET_REQUIRED", "SEQ_MISMATCH", "REPLY_GONE", "SESSION_NOT_FOUND")
            promise(answer.code in known, f"an answer that no client expects: {about}")
            self.has_to_reset = True

    def _guess(self) -> None:
        """A client must reset now. Some try a step all the same: the server has to hold them off."""
        self.has_to_reset = self.has_to_reset or self.dice.random() < 0.7

    async def _state(self) -> None:
        answer = await self.network.ask(20.0, "GET", "/state", None, session=self.session)
        if answer is not None and answer.status not in (200, 409):
            self.has_to_reset = True

    async def _delete(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            answer = await self.network.ask(5.0, "DELETE", "/session", None, session=self.session)
            if answer is not None:
                promise(answer.status == 200, f"{self.session}: {answer!r} to a DELETE")
                self.world.deleted.add(self.session)
                break
        self._new_session()


def search(seed: int) -> World:
    """Play everything that ``seed`` says.

    Raises:
        Broken: The server broke a promise.
    """
    dice = random.Random(seed)
    world = World()

    async def main() -> None:
        app = simulated_app(
            world.factory, world.workers, max_sessions=MAX_SESSIONS, idle_s=IDLE_S, default_session=False
        )
        async with Client(app) as client:
            network = Network(client, dice)
            players = [Player(f"player-{n}", network, world, random.Random(seed * 100 + n)) for n in range(CLIENTS)]
            await asyncio.gather(*(player.play() for player in players))
            late = await asyncio.gather(*network.under_way, return_exceptions=True)
            for answer in late:
                if isinstance(answer, BaseException):
                    raise answer
            await asyncio.sleep(SETTLED_S)
            left = (await client.call("GET", "/health")).value["sessions"]["active"]
            promise(left == 0, f"{left} environments are left of sessions that are over")
        promise(all(env.closed == 1 for env in world.made), "an environment was not closed")
        promise(world.workers.running == 0, "a call is left")

    try:
        simulate(main())
        promise(not world.broken, "; ".join(world.broken[:3]))
    except Exception as error:
        if world.broken and not isinstance(error, Broken):
            error = Broken(world.broken[0])
        error.add_note(f"seed {seed}")
        raise error from None
    return world
