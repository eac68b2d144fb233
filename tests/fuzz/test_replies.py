from __future__ import annotations

import pytest

from tests.fuzz import replies


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_reply_is_read_otherwise_than_by_http_client(seed: int) -> None:
    assert replies.run(seed, cases=700) == 700
