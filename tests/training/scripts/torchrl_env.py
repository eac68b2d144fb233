"""TorchRL's own wrapper and checks on the Gymnasium adapter."""

from __future__ import annotations

import json

import torch
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs

from examples.cart_pole import CartPoleEnv
from openenv.integrations.gymnasium import to_gymnasium

with CartPoleEnv.from_process("examples.cart_pole:app") as server:
    env = GymWrapper(to_gymnasium(CartPoleEnv(server.base_url)))
    check_env_specs(env)
    torch.manual_seed(3)
    env.set_seed(3)
    first = env.rollout(5)
    torch.manual_seed(3)
    env.set_seed(3)
    again = env.rollout(5)
    env.close()
print(
    json.dumps(
        {
            "first": first["observation"].tolist(),
            "again": again["observation"].tolist(),
            "reward": first["next", "reward"].sum().item(),
        }
    )
)
