"""docs/support-matrix.md says what the tests hold, no more and no less."""

from __future__ import annotations

from tests.interop import matrix


def test_every_cell_of_the_page_is_backed_by_a_test() -> None:
    page = matrix.PAGE.read_text()
    shown = page.partition(matrix.BEGIN)[2].partition(matrix.END)[0].strip()
    assert shown == matrix.table(), "write it anew: python -m tests.interop.matrix"
