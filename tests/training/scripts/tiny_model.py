"""A tiny random model and its tokenizer, made here; what it says is decided by a function, what it learns is real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

_SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
_WORDS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and the template of a model that calls tools."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(_SPECIAL)
    made.add_tokens(_WORDS)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left"
    )
    wrapped.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    return wrapped


def model(words: PreTrainedTokenizerFast, say: Callable[[str], str]) -> Any:
    """A model that answers the text of each prompt with what ``say`` gives."""

    class Scripted(Qwen2ForCausalLM):
        def generate(self, input_ids: Any = None, **_: Any) -> Any:
            said = [words(say(words.decode(row)) + "<|im_end|>")["input_ids"] for row in input_ids]
            width = max(map(len, said))
            padded = [row + [words.pad_token_id] * (width - len(row)) for row in said]
            return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        pad_token_id=words.pad_token_id,
        eos_token_id=words.eos_token_id,
    )
    return Scripted(config)
