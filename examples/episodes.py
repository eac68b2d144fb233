"""A PyTorch dataset of episodes, played by the workers of a DataLoader."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset

from examples.cart_pole import CartPoleEnv
from examples.many_processes import play


class Episodes(Dataset[Any]):
    """Item ``i`` is the return of an episode with the seed ``seeds[i]``."""

    def __init__(self, client: CartPoleEnv, seeds: list[int]) -> None:
        self._client, self._seeds = client, seeds

    def __len__(self) -> int:
        return len(self._seeds)

    def __getitem__(self, index: int) -> float:
        return play(self._client, self._seeds[index])
