"""Trains with the real GRPOTrainer for some steps: ``trl_rollouts.py WORDS [URL]``, the words that rollouts say."""

from __future__ import annotations

import itertools
import json
import sys
import tempfile

import tiny_model
from datasets import Dataset
from transformers.utils import get_json_schema
from trl import GRPOConfig, GRPOTrainer

from openenv.integrations.trl import environment_factory
from tests.training.mortal import MortalEnv

words, heard = itertools.cycle(sys.argv[1].split(",")), []


def say(prompt: str) -> str:
    if "<tool_response>" in prompt:
        heard.append(prompt)
        return "done"
    return '<tool_call>\n{"name": "echo", "arguments": {"message": "%s"}}\n</tool_call>' % next(words)  # noqa: UP031


if len(sys.argv) > 2:
    factory = environment_factory(MortalEnv, sys.argv[2])
else:  # a server for each rollout
    factory = environment_factory(MortalEnv.from_process, "tests.training.mortal:app")

tokenizer = tiny_model.tokenizer()
rows = {"prompt": [[{"role": "user", "content": "Speak."}]] * 8, "seed": list(range(8)), "other": ["x"] * 8}
with tempfile.TemporaryDirectory() as folder:
    trainer = GRPOTrainer(
        model=tiny_model.model(tokenizer, say),
        args=GRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=300,
            max_steps=2,
            report_to=[],
            use_cpu=True,
            bf16=False,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict(rows),
        processing_class=tokenizer,
        environment_factory=factory,
    )
    trainer.train()
steps = [entry for entry in trainer.state.log_history if "rewards/MortalEnvRollout/mean" in entry]
print(
    json.dumps(
        {
            "rewards": [entry["rewards/MortalEnvRollout/mean"] for entry in steps],
            "failures": [entry["tools/failure_frequency"] for entry in steps],
            "losses": [entry["loss"] for entry in steps],
            "heard": heard,
            "schema": get_json_schema(factory().echo),
        }
    )
)
