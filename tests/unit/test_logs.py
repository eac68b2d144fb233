"""What may stand in a line of a log."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from openenv.core.logs import brief, logger, masked, masked_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:8000/path", "http://host:8000/path"),
        ("http://me:secret@host/", "http://***@host/"),
        ("http://host/?api_key=abc&x=1", "http://host/?api_key=***&x=1"),
        ("wss://host/ws?access_token=abc", "wss://host/ws?access_token=***"),
        ("tcp://10.0.0.1:2376", "tcp://10.0.0.1:2376"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert masked_url(url) == shown


def test_secrets_are_masked_at_any_depth() -> None:
    told = masked({"action": {"api_key": "abc", "items": [{"Password": "x", "n": 1}]}, "token": ""})
    assert told == {"action": {"api_key": "***", "items": [{"Password": "***", "n": 1}]}, "token": ""}


def test_a_payload_is_one_short_line() -> None:
    assert brief({"screen": np.zeros((210, 160, 3), np.uint8), "reward": 1.0}) == (
        "{'screen': <uint8 array (210, 160, 3)>, 'reward': 1.0}"
    )
    assert brief(b"x" * 5000) == "<5000 bytes>"
    assert brief("y" * 5000).endswith("… (5002 characters)")
    assert brief(list(range(1000))).startswith("<1000 items: 0")
    assert brief({"auth_token": "abc"}) == "{'auth_token': '***'}"


def test_a_library_prints_nothing_by_itself() -> None:
    code = "import openenv.core; from openenv.core.logs import logger; logger('client').warning('not asked for')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""


def test_loggers_stand_below_one_name() -> None:
    assert logger("pool").name == "openenv.pool"
    assert any(isinstance(found, logging.NullHandler) for found in logging.getLogger("openenv").handlers)
