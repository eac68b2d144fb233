"""The options of a container: checked before anything starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from openenv.containers.spec import ContainerSpec
from openenv.core.errors import ConfigurationError


def spec(**options: Any) -> ContainerSpec:
    return ContainerSpec.of("echo-env:latest", None, None, options)


def arguments(**options: Any) -> dict[str, Any]:
    return spec(**options).docker_arguments()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("memroy", "memory"),
        ("volume", "volumes"),
        ("mem_limit", "memory"),
        ("environment", "env_vars"),
        ("cpu", "cpus"),
    ],
)
def test_an_unknown_option_is_a_type_error_that_names_the_nearest(written: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{written}'; did you mean .*{meant}"):
        spec(**{written: 1})


def test_an_option_like_no_other_is_answered_with_the_list() -> None:
    with pytest.raises(TypeError, match="there are image, port, env_vars, container_port"):
        spec(xyzzy=1)


def test_a_spec_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec().memory = "1g"  # type: ignore[misc]


def test_labels_under_our_prefix_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"org\.openenv\.session.*reserved"):
        spec(labels={"mine": "yes", "org.openenv.session": "x"})


@pytest.mark.parametrize("port", [-1, 65536, "8000", True, 80.0])
def test_a_port_that_is_none_is_refused(port: Any) -> None:
    with pytest.raises(ConfigurationError, match="port must be a number from 0 to 65535"):
        ContainerSpec.of("x", port, None, {})


def test_no_network_is_refused_since_nobody_could_reach_the_server() -> None:
    with pytest.raises(ConfigurationError, match="no way to reach"):
        spec(network="none")


@pytest.mark.parametrize(("network", "port"), [("mine", None), (None, 8000)])
def test_no_egress_goes_neither_with_a_network_nor_with_a_port(network: str | None, port: int | None) -> None:
    with pytest.raises(ConfigurationError, match="egress=False"):
        ContainerSpec.of("x", port, None, {"egress": False, "network": network})


@pytest.mark.parametrize("image", ["", "  "])
def test_an_empty_image_is_refused(image: str) -> None:
    with pytest.raises(ConfigurationError, match="name of an image"):
        ContainerSpec.of(image, None, None, {})


def test_environment_variables_are_passed_as_they_are_and_numbers_as_text() -> None:
    made = ContainerSpec.of("x", None, {"A": " =$B\n", "SLOTS": 4}, {})  # type: ignore[dict-item]
    assert made.env_vars == {"A": " =$B\n", "SLOTS": "4"}


@pytest.mark.parametrize("values", [{"A": None}, {"A": True}, {"A": ["x"]}, {"": "x"}, {"A=B": "x"}])
def test_what_cannot_be_an_environment_variable_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"env_vars\['A'\]|name of an environment variable"):
        ContainerSpec.of("x", None, values, {})


def test_a_container_is_hardened_unless_it_is_trusted() -> None:
    hard = arguments()
    assert (hard["cap_drop"], hard["security_opt"], hard["pids_limit"]) == (["ALL"], ["no-new-privileges"], 512)
    assert hard["init"] is True
    soft = arguments(trusted=True)
    assert "cap_drop" not in soft
    assert "security_opt" not in soft


def test_a_capability_can_be_kept_alone() -> None:
    assert arguments(cap_add=["SYS_PTRACE"])["cap_add"] == ["SYS_PTRACE"]
    assert arguments(cap_add=["SYS_PTRACE"])["cap_drop"] == ["ALL"]


def test_limits_are_said_in_the_engines_words() -> None:
    made = arguments(memory="64m", cpus=0.5, pids_limit=None, shm_size="1g")
    assert (made["mem_limit"], made["memswap_limit"], made["nano_cpus"]) == ("64m", "64m", 500_000_000)
    assert (made["pids_limit"], made["shm_size"]) == (-1, "1g")


def test_what_was_not_asked_for_is_left_to_the_engine() -> None:
    assert not {"command", "volumes", "mem_limit", "nano_cpus", "network", "read_only", "tmpfs"} & set(arguments())


def test_volumes_are_read_as_people_write_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = arguments(volumes={"./data": "/data:ro", Path("/abs"): "/b", "named": {"bind": "/c", "mode": "z"}})[
        "volumes"
    ]
    assert made == {
        f"{tmp_path}/data": {"bind": "/data", "mode": "ro"},
        "/abs": {"bind": "/b", "mode": "rw"},
        "named": {"bind": "/c", "mode": "z"},
    }


@pytest.mark.parametrize(
    ("gpus", "count", "ids"),
    [("all", -1, None), (2, 2, None), (["GPU-1"], None, ["GPU-1"]), ("GPU-1", None, ["GPU-1"])],
)
def test_gpus_are_a_number_all_or_ids(gpus: Any, count: int | None, ids: list[str] | None) -> None:
    (request,) = arguments(gpus=gpus)["device_requests"]
    assert request["Count"] == (count or 0)
    assert request["DeviceIDs"] == (ids or [])
    assert request["Capabilities"] == [["gpu"]]
