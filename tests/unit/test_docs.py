"""README and docs tell the truth: links lead somewhere, examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envs.echo_env import EchoEnv

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_python_examples_compile(page: Path) -> None:
    for example in examples(page):
        compile(example, relative(page), "exec", dont_inherit=True)


def test_the_first_example_of_the_readme_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = examples(ROOT / "README.md")[:2]
    # The same server without an engine.
    monkeypatch.setattr(EchoEnv, "from_docker_image", lambda image: EchoEnv.from_process())
    for example in (first, second):
        exec(compile(example, "README.md", "exec", dont_inherit=True), {"__name__": "readme"})
    assert capsys.readouterr().out.split() == ["hello", "0.5", "False", "world", "0.5", "False", "2"]


@pytest.mark.parametrize("name", ["pools", "containers"])
def test_the_examples_of_a_page_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = examples(ROOT / "docs" / f"{name}.md")
    assert found
    for example in found:
        exec(compile(example, f"{name}.md", "exec", dont_inherit=True), {"__name__": name})
    if name == "pools":
        assert capsys.readouterr().out.split("\n")[1] == "lane 3"


def test_every_make_target_and_command_that_the_readme_names_is_there() -> None:
    from openenv.cli import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    (listed,) = re.findall(r"`make ((?:[a-z]+ )+[a-z]+)`", text)
    assert set(listed.split()) | {"help"} == set(targets)
    assert set(re.findall(r"`openenv ([a-z]+)`", text)) == set(COMMANDS)
