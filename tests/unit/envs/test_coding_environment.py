"""Code that is really run. What tries to escape is in ``test_coding_sandbox``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from envs.coding_env import CodeAction, CodeObservation, CodingEnv
from envs.coding_env.server.app import app
from envs.coding_env.server.environment import CodingEnvironment
from envs.coding_env.server.settings import Settings
from openenv.server import serve_in_thread


@pytest.fixture(scope="module")
def shared() -> Iterator[CodingEnvironment]:
    env = CodingEnvironment(Settings(output_bytes=10_000, file_bytes=1 << 20))
    yield env
    env.close()


@pytest.fixture
def env(shared: CodingEnvironment) -> CodingEnvironment:
    shared.reset()
    return shared


def run(env: CodingEnvironment, code: str) -> CodeObservation:
    return env.step(CodeAction(code))


def said(env: CodingEnvironment, code: str) -> str:
    """What ``code`` prints, where nothing goes wrong."""
    seen = run(env, code)
    assert (seen.exit_code, seen.stderr, seen.metadata) == (0, "", {})
    return seen.stdout


def test_a_reset_says_nothing_and_pays_nothing(shared: CodingEnvironment) -> None:
    assert shared.reset() == CodeObservation(stdout="", stderr="", exit_code=0, reward=0.0)
    assert (shared.state.step_count, shared.state.last_exit_code) == (0, 0)
    shared.reset(episode_id="mine")
    assert shared.state.episode_id == "mine"


def test_code_runs_and_pays_nothing(env: CodingEnvironment) -> None:
    assert run(env, "print(6 * 7)") == CodeObservation(stdout="42\n", stderr="", exit_code=0, reward=0.0)


def test_variables_functions_and_modules_persist(env: CodingEnvironment) -> None:
    said(env, "import math\nx = 2\ndef double():\n    return 2 * x")
    said(env, "x = 5")
    assert said(env, "print(double(), math.floor(1.5))") == "10 1\n"


def test_variables_and_files_vanish_at_reset(env: CodingEnvironment) -> None:
    said(env, "x = 1; open('note', 'w').write('a')")
    assert said(env, "import os; print(os.listdir())") == "['note']\n"
    env.reset()
    assert said(env, "import os; print(os.listdir())") == "[]\n"
    assert "NameError: name 'x' is not defined" in run(env, "x").stderr


def test_a_step_before_any_reset_runs() -> None:
    """As the first generation of clients may do."""
    env = CodingEnvironment(Settings())
    try:
        assert said(env, "print(1)") == "1\n"
    finally:
        env.close()


def test_sessions_know_nothing_of_each_other(env: CodingEnvironment) -> None:
    other = CodingEnvironment(Settings())
    try:
        other.reset()
        said(env, "x = 'mine'")
        assert run(other, "x").exit_code == 1
        assert said(other, "import os; print(os.getcwd())") != said(env, "import os; print(os.getcwd())")
    finally:
        other.close()


def test_an_exception_is_exit_code_1_and_a_traceback_of_the_code_alone(env: CodingEnvironment) -> None:
    said(env, "def fail():\n    raise ValueError('deep')")
    seen = run(env, "fail()")
    assert (seen.exit_code, seen.stdout) == (1, "")
    # Newer versions of Python underline some lines.
    assert [line for line in seen.stderr.splitlines() if line.strip(" ~^")] == [
        "Traceback (most recent call last):",
        '  File "<step 2>", line 1, in <module>',
        "    fail()",
        '  File "<step 1>", line 2, in fail',
        "    raise ValueError('deep')",
        "ValueError: deep",
    ]
    assert env.state.last_exit_code == 1
    said(env, "pass")
    assert env.state.last_exit_code == 0


def test_what_is_no_python_is_a_syntax_error(env: CodingEnvironment) -> None:
    seen = run(env, "x = = 1")
    assert seen.exit_code == 1
    assert seen.stderr.endswith("SyntaxError: invalid syntax\n")
    assert "Traceback" not in seen.stderr


@pytest.mark.parametrize(
    ("given", "exit_code", "stderr"),
    [("", 0, ""), ("0", 0, ""), ("3", 3, ""), ("True", 1, ""), ("-1", 255, ""), ("'bye'", 1, "bye\n")],
)
def test_sys_exit_ends_the_step_but_not_the_interpreter(
    env: CodingEnvironment, given: str, exit_code: int, stderr: str
) -> None:
    seen = run(env, f"import sys\nx = 7\nsys.exit({given})")
    assert (seen.exit_code, seen.stderr) == (exit_code, stderr)
    assert said(env, "print(x)") == "7\n"


def test_stdout_and_stderr_are_kept_apart(env: CodingEnvironment) -> None:
    seen = run(env, "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (seen.stdout, seen.stderr, seen.exit_code) == ("out\n", "err\n", 0)


def test_output_of_other_processes_and_of_c_code_is_caught(env: CodingEnvironment) -> None:
    assert said(env, "import os, subprocess\nsubprocess.run(['echo', 'a'])\nos.write(1, b'b\\n')") == "a\nb\n"


def test_text_of_any_kind_travels(env: CodingEnvironment) -> None:
    assert said(env, "print('Grüße 🎉')") == "Grüße 🎉\n"
    assert said(env, "import os\nos.write(1, b'\\xff\\n')") == "\N{REPLACEMENT CHARACTER}\n"
    assert run(env, "'\ud800'").exit_code == 1
    assert said(env, "print('\\0')") == "\0\n"


def test_code_is_the_main_module(env: CodingEnvironment) -> None:
    code = "import pickle, sys\nclass A: pass\nprint(__name__, type(pickle.loads(pickle.dumps(A()))) is A, sys.argv)"
    assert said(env, code) == "__main__ True ['']\n"


def test_code_can_import_what_it_wrote(env: CodingEnvironment) -> None:
    assert said(env, "open('mine.py', 'w').write('z = 5')\nimport mine\nprint(mine.z)") == "5\n"


def test_nothing_waits_at_stdin(env: CodingEnvironment) -> None:
    assert run(env, "input()").stderr.endswith("EOFError: EOF when reading a line\n")


def test_processes_and_threads_and_loops_can_be_used(env: CodingEnvironment) -> None:
    code = """
import asyncio, concurrent.futures, multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    print(list(pool.map(abs, [-3])))
async def main():
    process = await asyncio.create_subprocess_exec("true")
    print(await process.wait())
asyncio.run(main())
"""
    assert said(env, code) == "[1, 2]\n[3]\n0\n"


def test_code_may_end_its_own_processes(env: CodingEnvironment) -> None:
    code = "import subprocess\np = subprocess.Popen(['sleep', '60'])\np.kill()\nprint(p.wait())"
    assert said(env, code) == "-9\n"


def test_processes_end_with_their_step(env: CodingEnvironment) -> None:
    said(env, "import subprocess\np = subprocess.Popen(['sleep', '60'], start_new_session=True)")
    assert said(env, "print(p.wait(5))") == "-9\n"


def test_what_is_written_beyond_the_limit_is_counted_and_cut(env: CodingEnvironment) -> None:
    seen = run(env, "import sys\nprint('a' * 20_000)\nprint('b' * 30_000, file=sys.stderr)")
    assert seen.stdout == "a" * 10_000 + "\n[coding_env] cut here: 10,000 of 20,001 bytes are kept\n"
    assert seen.stderr == "b" * 10_000 + "\n[coding_env] cut here: 10,000 of 30,001 bytes are kept\n"
    assert seen.exit_code == 0


def test_a_file_beyond_the_limit_cannot_be_written(env: CodingEnvironment) -> None:
    assert "File too large" in run(env, "open('big', 'wb').write(bytes(2 << 20))").stderr


def test_code_that_takes_too_long_is_interrupted_and_keeps_its_variables(env: CodingEnvironment) -> None:
    env.reset(step_timeout_s=0.3)
    said(env, "x = 1")
    start = time.monotonic()
    seen = run(env, "print('begun')\nwhile True: x += 1")
    assert time.monotonic() - start < 5
    assert (seen.exit_code, seen.stdout) == (124, "begun\n")
    assert "KeyboardInterrupt\n[coding_env] The code ran longer than 0.3 s and was interrupted." in seen.stderr
    assert "sandbox" not in seen.stderr
    assert said(env, "print(x > 1)") == "True\n"


def test_code_that_ignores_the_interruption_is_ended(env: CodingEnvironment) -> None:
    env.reset(step_timeout_s=0.3)
    seen = run(env, "import signal, time\nsignal.signal(2, signal.SIG_IGN)\ntime.sleep(60)")
    assert seen.exit_code == 124
    assert "did not stop when interrupted. The interpreter was ended; variables are lost" in seen.stderr
    assert seen.metadata == {"variables_lost": True}
    assert said(env, "print('alive')") == "alive\n"


def test_the_limit_of_an_episode_is_of_that_episode_alone(env: CodingEnvironment) -> None:
    env.reset(step_timeout_s=0.1)
    assert run(env, "import time; time.sleep(0.5)").exit_code == 124
    env.reset()
    assert run(env, "import time; time.sleep(0.5)").exit_code == 0


def test_a_caller_who_waits_less_long_gets_an_answer_in_time(env: CodingEnvironment) -> None:
    start = time.monotonic()
    assert env.step(CodeAction("import time; time.sleep(60)"), timeout_s=1.0).exit_code == 124
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("wrong", [0, -1, "1", True, float("nan"), float("inf")])
def test_a_limit_that_cannot_be_is_refused(env: CodingEnvironment, wrong: float) -> None:
    with pytest.raises(ValueError, match="step_timeout_s must be a positive number"):
        env.reset(step_timeout_s=wrong)


def test_only_what_was_written_in_a_step_is_in_its_observation(env: CodingEnvironment) -> None:
    for number in range(20):
        assert said(env, f"print({number})") == f"{number}\n"


def test_secrets_of_the_server_are_not_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "secret")
    env = CodingEnvironment(Settings())
    try:
        assert said(env, "import os; print('OPENENV_TOKEN' in os.environ, os.environ['HOME'] == os.getcwd())") == (
            "False True\n"
        )
    finally:
        env.close()


def test_closing_leaves_no_process_and_no_file() -> None:
    env = CodingEnvironment(Settings())
    env.reset()
    folder, pid, parent = said(
        env, "import os, subprocess\nprint(os.getcwd(), os.getpid(), os.getppid())\nopen('f', 'w').write('x')"
    ).split()
    assert Path(folder).is_dir()
    env.close()
    env.close()
    assert not Path(folder).exists()
    for gone in (pid, parent):
        with pytest.raises(ProcessLookupError):
            os.kill(int(gone), 0)


def test_an_interpreter_that_cannot_be_started_is_named() -> None:
    env = CodingEnvironment(Settings(), python="/nowhere/python")
    with pytest.raises(RuntimeError, match="cannot be started with /nowhere/python"):
        env.reset()


def test_a_client_runs_code() -> None:
    with serve_in_thread(app) as url, CodingEnv(url) as one, CodingEnv(url) as two:
        for env in (one, two):
            env.reset()
        one.step(CodeAction("x = 1"))
        assert one.step(CodeAction("print(x)")).observation.stdout == "1\n"
        assert two.step(CodeAction("print(x)")).observation.exit_code == 1
        assert (one.state().last_exit_code, two.state().last_exit_code, one.state().step_count) == (0, 1, 2)
        result = two.step(CodeAction("while True: pass"), timeout_s=1.0)
        assert (result.observation.exit_code, result.reward, result.done) == (124, 0.0, False)


def test_every_variable_is_read() -> None:
    assert Settings.from_variables({}) == Settings() == Settings.from_variables({"CODING_TIMEOUT_S": " "})
    given = {
        "CODING_TIMEOUT_S": "2.5", "CODING_MEMORY_MB": "64", "CODING_PROCESSES": "5", "CODING_FILE_MB": "2",
        "CODING_OUTPUT_BYTES": "100",
    }  # fmt: skip
    assert Settings.from_variables(given) == Settings(
        timeout_s=2.5, memory_bytes=64 << 20, processes=5, file_bytes=2 << 20, output_bytes=100
    )


@pytest.mark.parametrize("text", ["0", "-1", "much", "inf", "nan"])
def test_a_wrong_variable_is_named(text: str) -> None:
    for variable in ("CODING_TIMEOUT_S", "CODING_MEMORY_MB"):
        with pytest.raises(ValueError, match=f"{variable} must be a positive number; got '{text}'"):
            Settings.from_variables({variable: text})
    with pytest.raises(ValueError, match="processes must be more than 0"):
        replace(Settings(), processes=0)
