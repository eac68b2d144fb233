"""The engine's own words: every answer that is not the environment's."""

from __future__ import annotations

from openenv.server.session import RESET, STATE, STEP, Call, Reply, refusal


def shutting_down(call: Call) -> Reply:
    return refusal(call, 503, "SHUTTING_DOWN", "this server is shutting down")


def capacity(call: Call, active: int, most: int) -> Reply:
    message = f"Server at capacity: {active}/{most} sessions active. Close one, wait, or raise MAX_CONCURRENT_ENVS."
    return refusal(call, 503, "CAPACITY_REACHED", message, active_sessions=active, max_sessions=most)


def session_required(call: Call) -> Reply:
    message = "this call needs a session of your own; send OpenEnv-Session with an id that you made up"
    return refusal(call, 400, "SESSION_REQUIRED", message)


def invalid_id(call: Call) -> Reply:
    message = f"a session id is 22 to 64 of A-Z a-z 0-9 _ -; got {len(call.session_id)} bytes"
    return refusal(call, 400, "INVALID_SESSION_ID", message)


def not_found(call: Call) -> Reply:
    return refusal(call, 404, "SESSION_NOT_FOUND", "this server does not hold that session; begin with /reset")


def closed(call: Call, reason: str) -> Reply:
    return refusal(call, 410, "SESSION_CLOSED", f"the session is over: {reason}", reason=reason)


def seq_mismatch(call: Call, expected: int) -> Reply:
    message = f"number {call.seq} does not follow; the next one is {expected}"
    return refusal(call, 409, "SEQ_MISMATCH", message, expected=expected)


def seq_reused(call: Call, expected: int) -> Reply:
    message = f"number {call.seq} was used for another call; the next one is {expected}"
    return refusal(call, 422, "SEQ_REUSED", message, expected=expected)


def reply_gone(call: Call, expected: int) -> Reply:
    message = f"number {call.seq} did run, but its answer is no longer remembered; the next one is {expected}"
    return refusal(call, 409, "REPLY_GONE", message, expected=expected)


def reset_required(call: Call) -> Reply:
    message = "the last /reset failed, or a call ran out of time: the episode cannot go on; call /reset"
    return refusal(call, 409, "RESET_REQUIRED", message)


def still_running(call: Call, running_s: float) -> Reply:
    message = "still running; ask again with the same number and body"
    return refusal(call, 202, "STILL_RUNNING", message, running_s=round(running_s, 3))


def overrun(call: Call) -> Reply:
    """The limit of ``call`` passed."""
    assert call.limit is not None
    if call.op is STATE:
        message = f"the session is in another call, and /state waited {call.limit:g} s for its turn"
        return refusal(call, 409, "SESSION_BUSY", message)
    code = {STEP: "STEP_TIMEOUT", RESET: "RESET_TIMEOUT"}[call.op]
    message = f"/{call.op} took longer than its limit of {call.limit:g} s; call /reset"
    return refusal(call, 504, code, message, timeout_s=call.limit)
