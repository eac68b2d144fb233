"""The table of docs/support-matrix.md, made from the tests that stand behind it.

`python -m tests.interop.matrix` writes it anew. A cell says yes exactly where a test is told that client and that
server; the rest says why not.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.interop import test_our_clients, test_their_clients
from tests.interop.drivers import ASYNC, HTTP, SYNC

PAGE = Path(__file__).parents[2] / "docs" / "support-matrix.md"
BEGIN, END = "<!-- table: python -m tests.interop.matrix -->", "<!-- end of table -->"

OURS, THEIRS = test_our_clients, test_their_clients

#: What works, the test of it with our clients, the test of it with the peer's clients.
ROWS: list[tuple[str, str, str]] = [
    (
        "an episode of 100 steps",
        "test_a_hundred_steps_of_one_episode",
        "test_a_hundred_steps_of_one_episode",
    ),
    (
        "a session for each client",
        "test_clients_do_not_share_an_episode",
        "test_clients_do_not_share_an_episode",
    ),
    (
        "seed, episode id, options of reset",
        "test_seed_id_and_options_arrive",
        "test_seed_id_and_options_arrive",
    ),
    (
        "rewards as they are: none, int, bool, float",
        "test_a_reward_is_what_the_environment_gave",
        "test_a_reward_is_what_the_environment_gave",
    ),
    (
        "metadata of results, where the server sends it",
        "test_metadata_of_a_result",
        "test_metadata_reaches_those_who_read_it",
    ),
    (
        "fields that the client does not know",
        "test_fields_that_the_models_do_not_know_are_kept",
        "test_fields_that_the_client_does_not_know",
    ),
    (
        "an observation of 20 MB",
        "test_an_observation_of_twenty_megabytes",
        "test_an_observation_of_twenty_megabytes",
    ),
    (
        "an environment that raises: a named error, the episode goes on",
        "test_an_environment_that_raises_is_named_and_the_episode_goes_on",
        "test_an_environment_that_raises_is_the_error_that_their_users_catch",
    ),
    (
        "a wrong action: refused, the episode goes on",
        "test_a_wrong_action_is_named_and_changes_nothing",
        "test_a_wrong_action_is_refused_and_changes_nothing",
    ),
    (
        "a factory that fails: a named error",
        "test_a_factory_that_fails_is_the_environments_fault",
        "test_a_factory_that_fails",
    ),
    (
        "a full server: refused, and room again after close",
        "test_a_full_server_says_how_full_and_a_closed_client_makes_room",
        "test_a_full_server_refuses_and_a_closed_client_makes_room",
    ),
    ("a production server", "test_a_production_server_without_http_episodes", ""),
    (
        "`new_session()`",
        "test_new_session_is_a_sibling_that_closes_with_its_parent",
        "test_new_session_of_the_newest_client",
    ),
    (
        "a step longer than the ping interval, pings on and off",
        "test_a_step_that_lasts_longer_than_a_ping_may",
        "test_a_step_that_lasts_longer_than_a_ping_may",
    ),
    (
        "a late answer is never taken for the next one",
        "test_a_late_answer_is_never_taken_for_the_next_one",
        "test_after_a_late_answer_the_newest_client_starts_anew",
    ),
    (
        "a server that restarts in mid-episode is noticed",
        "test_a_server_that_restarts_in_mid_episode_loses_it_and_says_so",
        "test_a_server_that_restarts_has_forgotten_the_episode",
    ),
    ("tools", "test_tools_are_called_and_the_session_remembers", "test_tools_by_actions"),
]

#: Heading, the clients that all have to pass, the server.
OUR_COLUMNS = [
    ("`HTTPEnvClient` → 0.1.1", (HTTP,), "0.1.1"),
    ("`HTTPEnvClient` → 0.3.0", (HTTP,), "0.3.0"),
    ("`HTTPEnvClient` → 0.10.0", (HTTP,), "0.10.0"),
    ("`HTTPEnvClient` → ours", (HTTP,), "ours"),
    ("`EnvClient`, `SyncEnvClient` → 0.3.0", (ASYNC, SYNC), "0.3.0"),
    ("`EnvClient`, `SyncEnvClient` → 0.10.0", (ASYNC, SYNC), "0.10.0"),
    ("`EnvClient`, `SyncEnvClient` → ours", (ASYNC, SYNC), "ours"),
]
THEIR_COLUMNS = [("0.1.1 → ours", "0.1.1"), ("0.3.0 → ours", "0.3.0"), ("0.10.0 → ours", "0.10.0")]


def told(module: ModuleType, test: str) -> set[tuple[str, ...]]:
    """The (client, server) or (client,) that a test is parametrised with."""
    if not test:
        return set()
    function = getattr(module, test)
    axes: dict[str, list[Any]] = {}
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(function, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names = [mark.args[0]] if isinstance(mark.args[0], str) else list(mark.args[0])
        values = [dict(zip(names, value if len(names) > 1 else [value], strict=True)) for value in mark.args[1]]
        cases = [{**case, **value} for case, value in product(cases, values)]
        axes.update({name: [] for name in names})
    keys = ("kind", "version") if module is OURS else ("version",)
    fixed = {} if "version" in axes else {"version": "0.10.0"}
    return {tuple(str({**fixed, **case}[key]) for key in keys) for case in cases}


def table() -> str:
    """The table in Markdown."""
    headings = ["", *(column[0] for column in OUR_COLUMNS), *(column[0] for column in THEIR_COLUMNS)]
    lines = [" | ".join(headings), " | ".join(["---", *[":-:"] * (len(headings) - 1)])]
    for what, ours, theirs in ROWS:
        with_ours, with_theirs = told(OURS, ours), told(THEIRS, theirs)
        cells = [all((kind, server) in with_ours for kind in kinds) for _, kinds, server in OUR_COLUMNS]
        cells += [(client,) in with_theirs for _, client in THEIR_COLUMNS]
        lines.append(" | ".join([what, *("✓" if cell else "–" for cell in cells)]))
    return "\n".join(f"| {line} |" for line in lines)


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
