"""Many environments stepped together: order, failures of single lanes, stragglers, resets."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterator

import pytest

from openenv.core import EpisodeLost, OpenEnvError
from openenv.core.errors import (
    CapacityError,
    ClientClosed,
    ConcurrentUse,
    ConfigurationError,
    EnvironmentFailed,
    StepTimeout,
)
from openenv.pool import EnvPool
from openenv.server.thread import serve_in_thread
from tests.unit.pool.worlds import Async, CountingEnv, Do, Seen, app

Pool = EnvPool[Do, Seen, object]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_in_thread(app(max_sessions=512)) as address:
        yield address


@pytest.fixture(scope="module")
def quick() -> Iterator[str]:
    with serve_in_thread(app(Async, max_sessions=512)) as address:
        yield address


def sessions(url: str) -> int:
    with CountingEnv(url) as env:
        active: int = env.health()["sessions"]["active"]
    return active


def counts(result: object) -> list[int | None]:
    return [None if told is None else told.observation.count for told in result]  # type: ignore[attr-defined]


# --- order, seeds, options ---


def test_results_come_in_the_order_of_the_lanes(url: str) -> None:
    with EnvPool(CountingEnv, url, 8) as pool:
        begun = pool.reset(seeds=[10 * lane for lane in range(8)])
        assert [told.observation.seed for told in begun if told] == [10 * lane for lane in range(8)]
        result = pool.step([Do(sleep=0.01 * (8 - lane)) for lane in range(8)])
        assert [told.observation.seed for told in result if told] == [10 * lane for lane in range(8)]
        assert result.rewards == [1.0] * 8
        assert result.dones == [False] * 8
        assert result.ready == list(range(8))
        assert len(result.observations) == 8
        assert not result.errors


def test_one_seed_counts_up_and_options_are_for_all(url: str) -> None:
    with EnvPool(CountingEnv, url, 3) as pool:
        begun = pool.reset(seeds=5, options={"level": 2})
        assert [(told.observation.seed, told.observation.level) for told in begun if told] == [(5, 2), (6, 2), (7, 2)]


def test_a_group_has_one_seed_and_one_set_of_options(url: str) -> None:
    with EnvPool(CountingEnv, url, 6, group_size=3) as pool:
        begun = pool.reset(seeds=[1, 2], options=[{"level": 8}, {"level": 9}])
        assert [told.observation.seed for told in begun if told] == [1, 1, 1, 2, 2, 2]
        assert [told.observation.level for told in begun if told] == [8, 8, 8, 9, 9, 9]
        assert [told.observation.seed for told in pool.reset(seeds=40) if told] == [40] * 3 + [41] * 3
        result = pool.step({0: Do(), 1: Do(), 2: Do(), 3: Do(), 4: Do(fail="x"), 5: Do()})
        assert result.whole_groups == [True, False]


def test_some_lanes_may_be_reset_or_stepped_alone(url: str) -> None:
    with EnvPool(CountingEnv, url, 4) as pool:
        pool.reset()
        pool.step([Do()] * 4)
        begun = pool.reset(lanes=[1, 3], seeds=[7, 8])
        assert begun.ready == [1, 3]
        assert counts(pool.step({1: Do(), 2: Do()})) == [None, 1, 2, None]
        assert [state.step_count for state in pool.state() if state] == [1, 1, 2, 0]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda pool: pool.step([Do()]), "1 actions for 3 lanes"),
        (lambda pool: pool.step({5: Do()}), "no lane 5; there are 0 to 2"),
        (lambda pool: pool.reset(seeds=[1, 2]), "seeds has 2 values, for 3 lanes"),
        (lambda pool: pool.reset(lanes=[3]), "no lane 3"),
        (lambda pool: EnvPool(CountingEnv, "http://x", 0), "lanes must be a whole number from 1; got 0"),
        (lambda pool: EnvPool(CountingEnv, "http://x", 5, group_size=2), "no whole number of groups"),
        (lambda pool: EnvPool(CountingEnv, "http://x", 1, autoreset="maybe"), "autoreset must be one of"),
        (lambda pool: EnvPool(CountingEnv, [], 1), "empty list"),
    ],
)
def test_what_cannot_work_is_named(url: str, call: object, told: str) -> None:
    with EnvPool(CountingEnv, url, 3) as pool:
        pool.reset()
        with pytest.raises(ConfigurationError, match=told):
            call(pool)  # type: ignore[operator]
        assert counts(pool.step([Do()] * 3)) == [1, 1, 1]


# --- lanes fail alone ---


def test_an_environment_that_fails_leaves_the_others_and_its_own_episode(url: str) -> None:
    with EnvPool(CountingEnv, url, 3) as pool:
        pool.reset()
        result = pool.step([Do(), Do(fail="out of order"), Do()])
        assert counts(result) == [1, None, 1]
        assert isinstance(result.errors[1], EnvironmentFailed)
        assert "out of order" in str(result.errors[1])
        assert result.lost == [False] * 3
        with pytest.raises(EnvironmentFailed) as caught:
            result.raise_errors()
        assert "lane 1; 1 of 3 lanes failed" in "".join(caught.value.__notes__)
        assert counts(pool.step([Do()] * 3)) == [2, 1, 2]


def test_a_lane_out_of_time_is_lost_until_its_reset_and_its_late_answer_never_shows(quick: str) -> None:
    with EnvPool(CountingEnv, quick, 3) as pool:
        pool.reset()
        result = pool.step([Do(), Do(sleep=1.0), Do()], timeout_s=0.3)
        assert isinstance(result.errors[1], StepTimeout)
        assert result.lost == [False, True, False]
        result = pool.step([Do()] * 3)
        assert counts(result) == [2, None, 2]
        assert isinstance(result.errors[1], EpisodeLost)
        time.sleep(1.0)
        pool.reset(lanes=[1])
        assert counts(pool.step([Do()] * 3)) == [3, 1, 3]


def test_lanes_that_find_no_room_say_so_and_the_others_play() -> None:
    with serve_in_thread(app(max_sessions=2)) as url, EnvPool(CountingEnv, url, 3) as pool:
        begun = pool.reset()
        assert isinstance(begun.errors[2], CapacityError)
        assert counts(pool.step({0: Do(), 1: Do()})) == [1, 1, None]


def test_a_server_that_is_gone_is_an_error_of_its_lanes_only() -> None:
    with serve_in_thread(app()) as stays:
        gone = serve_in_thread(app())
        address = gone.__enter__()
        with EnvPool(CountingEnv, [stays, address], 4, client_options={"request_timeout_s": 3.0}) as pool:
            pool.reset(seeds=0)
            gone.__exit__(None, None, None)
            result = pool.step([Do()] * 4)
            assert len(result.errors) == 2
            assert len(result.ready) == 2
            begun = pool.reset(seeds=100)
            assert not begun.errors
            assert [told.observation.seed for told in begun if told] == [100, 101, 102, 103]
            assert counts(pool.step([Do()] * 4)) == [1] * 4
            assert "1 servers" in repr(pool)


def test_lanes_stay_where_they_are_where_that_is_wanted() -> None:
    gone = serve_in_thread(app())
    address = gone.__enter__()
    with serve_in_thread(app()) as stays:
        options = {"request_timeout_s": 2.0}
        with EnvPool(CountingEnv, [stays, address], 2, on_lost="keep", client_options=options) as pool:
            pool.reset()
            gone.__exit__(None, None, None)
            assert sorted(pool.reset().errors) == [1]


def test_a_restarted_server_is_never_taken_for_the_same_episode() -> None:
    with serve_in_thread(app()) as url:
        with EnvPool(CountingEnv, url, 2) as pool:
            pool.reset()
            pool.step([Do()] * 2)
            for lane in pool._lanes:
                lane.id = lane.id[::-1]  # what the server does not know
            result = pool.step([Do()] * 2)
            assert result.lost == [True, True]
            assert not pool.reset().errors
            assert counts(pool.step([Do()] * 2)) == [1, 1]


# --- who is ready first ---


@pytest.mark.parametrize("where", ["url", "quick"])
def test_the_first_that_are_ready_come_first(where: str, request: pytest.FixtureRequest) -> None:
    with EnvPool(CountingEnv, request.getfixturevalue(where), 4) as pool:
        pool.reset()
        start = time.monotonic()
        pool.send([Do(), Do(sleep=1.0), Do(), Do(sleep=1.0)])
        first = pool.recv(min_ready=2)
        assert time.monotonic() - start < 0.9
        assert first.ready == [0, 2]
        assert first.pending == [1, 3]
        pool.send({0: Do()})
        with pytest.raises(ConcurrentUse, match="lane 1 is still"):
            pool.send({1: Do()})
        with pytest.raises(ConcurrentUse, match="lane 3 is still"):
            pool.reset(lanes=[3])
        rest = pool.recv()
        assert counts(rest) == [2, 1, None, 1]
        assert rest.pending == []


def test_what_is_done_within_a_time(quick: str) -> None:
    with EnvPool(CountingEnv, quick, 3) as pool:
        pool.reset()
        pool.send([Do(sleep=0.1), Do(sleep=2.0), Do(sleep=0.1)])
        start = time.monotonic()
        result = pool.recv(within=0.5)
        assert time.monotonic() - start < 1.5
        assert [result.ready, result.pending] == [[0, 2], [1]]
        assert pool.recv().ready == [1]


def test_several_servers_are_waited_for_together() -> None:
    with serve_in_thread(app(Async)) as one, serve_in_thread(app(Async)) as two:
        with EnvPool(CountingEnv, [one, two], 4) as pool:
            pool.reset()
            start = time.monotonic()
            pool.step([Do(sleep=0.5)] * 4)
            assert time.monotonic() - start < 0.95
            pool.send([Do(sleep=1.0), Do(sleep=0.1), Do(sleep=1.0), Do(sleep=1.0)])
            assert pool.recv(min_ready=1).ready == [1]
            assert pool.recv().ready == [0, 2, 3]


# --- the end of episodes ---


def test_nothing_is_reset_by_itself(url: str) -> None:
    with EnvPool(CountingEnv, url, 2) as pool:
        pool.reset()
        assert pool.step([Do(end=True), Do()]).dones == [True, False]
        assert counts(pool.step([Do()] * 2)) == [2, 2]


def test_the_next_step_is_a_reset_where_that_is_wanted(url: str) -> None:
    with EnvPool(CountingEnv, url, 2, autoreset="next_step") as pool:
        pool.reset()
        ended = pool.step([Do(end=True), Do()])
        assert counts(ended) == [1, 1]
        again = pool.step([Do()] * 2)
        assert counts(again) == [0, 2]
        assert again.dones == [False, False]
        assert counts(pool.step([Do()] * 2)) == [1, 3]


def test_the_same_step_resets_and_keeps_the_last_observation(url: str) -> None:
    with EnvPool(CountingEnv, url, 2, autoreset="same_step") as pool:
        pool.reset()
        pool.step([Do()] * 2)
        ended = pool.step([Do(end=True), Do()])
        assert counts(ended) == [0, 2]
        assert ended.final_obs[0].count == 2
        assert ended.rewards == [2.0, 2.0]
        assert ended.dones == [True, False]
        assert counts(pool.step([Do()] * 2)) == [1, 3]


# --- limits, ends, copies ---


def test_closing_frees_every_session(url: str) -> None:
    before = sessions(url)
    with EnvPool(CountingEnv, url, 8) as pool:
        pool.reset()
        assert sessions(url) == before + 8
    deadline = time.monotonic() + 5
    while sessions(url) > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sessions(url) == before
    for call in (pool.reset, lambda: pool.step([]), pool.recv):
        with pytest.raises(ClientClosed):
            call()
    pool.close()


def test_no_thread_is_made_for_one_server(url: str) -> None:
    before = threading.active_count()
    with EnvPool(CountingEnv, url, 8) as pool:
        pool.reset()
        ours = [thread.name for thread in threading.enumerate() if thread.name.startswith("openenv-pool")]
        assert ours == []
    assert threading.active_count() <= before + 8  # the server's, which is in this process


def test_a_long_round_is_asked_again_until_it_is_done(quick: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.server.batch.PATIENCE_S", 0.2)
    with EnvPool(CountingEnv, quick, 2) as pool:
        pool.reset()
        assert counts(pool.step([Do(sleep=0.7), Do()])) == [1, 1]


def test_where_the_time_went(url: str) -> None:
    with EnvPool(CountingEnv, url, 2) as pool:
        pool.reset()
        result = pool.step([Do(sleep=0.2)] * 2)
        assert result.timing.server is not None
        assert 0.15 < result.timing.server <= result.timing.exchange < 2
        told = pool.stats()
        assert told["rounds"] == 2
        assert told["steps"] == 4
        assert set(told["lanes"]) == {0, 1}
        assert told["total"]["p50"] <= told["total"]["p99"]
        assert "<table>" in pool._repr_html_()
        assert "<svg" in pool._repr_html_()


def test_a_forked_child_is_told_that_the_pool_is_not_its_own(url: str) -> None:
    with EnvPool(CountingEnv, url, 2) as pool:
        pool.reset()
        pid = os.fork()
        if not pid:
            try:
                pool.step([Do()] * 2)
            except ClientClosed:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert counts(pool.step([Do()] * 2)) == [1, 1]


def test_a_forgotten_pool_warns_and_frees_its_sessions(url: str) -> None:
    before = sessions(url)
    pool = EnvPool(CountingEnv, url, 2)
    pool.reset()
    with pytest.warns(ResourceWarning, match="never closed"):
        del pool
    time.sleep(0.2)
    assert sessions(url) == before


def test_errors_travel(url: str) -> None:
    with EnvPool(CountingEnv, url, 1) as pool:
        pool.reset()
        error = pool.step([Do(fail="x")]).errors[0]
    assert isinstance(pickle.loads(pickle.dumps(error)), OpenEnvError)


# --- servers that take no batches ---


@pytest.mark.parametrize("transport", ["websocket", "auto"])
def test_single_clients_stand_in_where_there_are_no_batches(quick: str, transport: str) -> None:
    def one() -> CountingEnv:
        return CountingEnv(quick, transport=transport)

    with EnvPool(CountingEnv, one, 5) as pool:
        assert [told.observation.seed for told in pool.reset(seeds=3) if told] == [3, 4, 5, 6, 7]
        assert counts(pool.step([Do()] * 5)) == [1] * 5
        start = time.monotonic()
        result = pool.step([Do(sleep=0.3), Do(fail="no"), Do(sleep=0.3), Do(), Do(sleep=0.3)])
        assert time.monotonic() - start < 0.8
        assert counts(result) == [2, None, 2, 2, 2]
        assert "no" in str(result.errors[1])
        assert [state.step_count for state in pool.state() if state] == [2, 1, 2, 2, 2]
        pool.send([Do(sleep=0.8), *[Do()] * 4])
        first = pool.recv(min_ready=4)
        assert first.pending == [0]
        assert counts(pool.recv()) == [3, None, None, None, None]
        assert counts(pool.step([Do()] * 5)) == [4, 3, 4, 4, 4]


def test_a_late_lane_on_a_socket_is_lost_alone(quick: str) -> None:
    with EnvPool(CountingEnv, lambda: CountingEnv(quick, transport="websocket"), 3) as pool:
        pool.reset()
        pool.step([Do()] * 3)
        result = pool.step([Do(), Do(sleep=1.5), Do()], timeout_s=0.4)
        assert result.lost == [False, True, False]
        assert counts(pool.step([Do()] * 3)) == [3, None, 3]
        pool.reset(lanes=[1])
        assert counts(pool.step([Do()] * 3)) == [4, 1, 4]
