"""Gymnasium's spaces from JSON Schemas, and values in and out of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from openenv.core import codec
from openenv.core.errors import ConfigurationError, DecodeError

_MAX_TEXT = 1 << 20
_SAMPLED_TEXT = 64


class Text(spaces.Text):
    """Text of any characters; ``sample`` makes short ones of letters and digits."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A random text, of 64 characters at most where no length is asked for."""
        if mask is None and probability is None:
            longest = max(self.min_length, min(self.max_length, _SAMPLED_TEXT))
            mask = (int(self.np_random.integers(self.min_length, longest + 1)), None)
        return super().sample(mask, probability)

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a text of a length that is allowed."""
        return isinstance(x, str) and self.min_length <= len(x) <= self.max_length

    def __repr__(self) -> str:
        return f"Text({self.min_length}, {self.max_length})"


class Choices(spaces.Discrete):
    """The numbers of ``values``, which are what the environment says and hears."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        super().__init__(len(values))
        self.values = values

    def __repr__(self) -> str:
        return f"Choices{self.values}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choices) and self.values == other.values


def space_of(schema: Mapping[str, Any], name: str, *, example: Any = None, acting: bool = False) -> Space[Any]:
    """The space of a JSON Schema.

    Args:
        schema: The schema of the value; its ``$defs`` are those of the whole.
        name: What is told where there is no space for it.
        example: A value that came, for arrays: a schema does not tell their shape and type.
        acting: Actions are sampled, so that a whole number without bounds is no space for one.

    Raises:
        ConfigurationError: There is no space for it.
    """
    return _space(schema, name, example, acting, schema.get("$defs", {}))


def _space(schema: Mapping[str, Any], name: str, example: Any, acting: bool, known: Mapping[str, Any]) -> Space[Any]:
    if reference := schema.get("$ref"):
        return _space(known[reference.rpartition("/")[2]], name, example, acting, known)
    if "const" in schema or "enum" in schema:
        return Choices(tuple(schema.get("enum", [schema.get("const")])))
    kind = schema.get("type")
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if kind == "boolean":
        return Choices((False, True))
    if kind == "string":
        return Text(schema.get("maxLength", _MAX_TEXT), min_length=schema.get("minLength", 0))
    if kind == "integer":
        return _integers(schema, name, acting)
    if kind == "number":
        high = schema.get("exclusiveMaximum") if high is None else high
        return spaces.Box(-np.inf if low is None else low, np.inf if high is None else high, (), np.float64)
    if kind == "object" and schema.get("properties"):
        seen = example if isinstance(example, Mapping) else {}
        parts = schema["properties"].items()
        return spaces.Dict({key: _space(part, f"{name}.{key}", seen.get(key), acting, known) for key, part in parts})
    if kind == "array":
        return _array(schema, name, example, acting, known)
    raise _no_space(name, schema, "the types with a space are numbers, text, booleans, enums, arrays and objects")


def _integers(schema: Mapping[str, Any], name: str, acting: bool) -> Space[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    if high is None and "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - 1
    if low is not None and high is not None:
        return spaces.Discrete(int(high) - int(low) + 1, start=int(low))
    if acting:
        raise _no_space(name, schema, "an action that is a whole number needs a minimum and a maximum")
    widest = np.iinfo(np.int64)
    return spaces.Box(widest.min if low is None else low, widest.max if high is None else high, (), np.int64)


def _array(schema: Mapping[str, Any], name: str, example: Any, acting: bool, known: Mapping[str, Any]) -> Space[Any]:
    items = schema.get("items") or {}
    if isinstance(example, np.ndarray):
        if example.dtype == np.bool_:
            return spaces.MultiBinary(example.shape)
        limits: Any = np.iinfo(example.dtype) if example.dtype.kind in "iu" else None
        low = items.get("minimum", limits.min if limits else -np.inf)
        high = items.get("maximum", limits.max if limits else np.inf)
        return spaces.Box(low, high, example.shape, example.dtype.type)
    element = _space(items, f"{name}[]", None, acting, known)
    length = schema.get("minItems")
    if isinstance(element, spaces.Box) and element.shape == () and length and length == schema.get("maxItems"):
        return spaces.Box(element.low.item(), element.high.item(), (length,), element.dtype.type)
    return spaces.Sequence(element)


def _no_space(name: str, schema: Mapping[str, Any], why: str) -> ConfigurationError:
    which = "action" if name.startswith("action") else "observation"
    return ConfigurationError(
        f"there is no space for {name} with the schema {dict(schema)!r:.120}: {why}",
        remedy=f"Give {which}_space=..., and {which}=... for the field, or for a function, that it is about.",
    )


def into(space: Space[Any], value: Any, name: str) -> Any:
    """``value``, as it came, as an element of ``space``; arrays are never shared with another element.

    Raises:
        DecodeError: It is none.
    """
    try:
        if isinstance(space, Choices):
            return space.values.index(value)
        if isinstance(space, spaces.Discrete):
            return int(value)
        if isinstance(space, spaces.Dict):
            seen = codec.fields(value)
            return {key: into(part, seen[key], f"{name}.{key}") for key, part in space.spaces.items()}
        if isinstance(space, (spaces.Box, spaces.MultiBinary, spaces.MultiDiscrete)):
            return np.array(value, dtype=space.dtype).reshape(space.shape)
        if isinstance(space, spaces.Sequence):
            return tuple(into(space.feature_space, item, f"{name}[]") for item in value)
        if isinstance(space, spaces.Tuple):
            return tuple(into(part, item, name) for part, item in zip(space.spaces, value, strict=True))
    except DecodeError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        told = f"{type(error).__name__}: {error}"
        raise DecodeError(
            f"{name} is no element of {space}: {told}", remedy="Give the space that fits.", path=name
        ) from error
    return value


def out_of(space: Space[Any], element: Any) -> Any:
    """An element of ``space`` as plain Python, for the wire."""
    if isinstance(space, Choices):
        return space.values[int(element)]
    if isinstance(space, spaces.Discrete):
        return int(element)
    if isinstance(space, spaces.Dict):
        return {key: out_of(part, element[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Sequence):
        return [out_of(space.feature_space, item) for item in element]
    if isinstance(space, spaces.Tuple):
        return [out_of(part, item) for part, item in zip(space.spaces, element, strict=True)]
    return element.tolist() if isinstance(element, (np.ndarray, np.generic)) else element
