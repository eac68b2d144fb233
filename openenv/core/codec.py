"""What travels: JSON and MessagePack, arrays in both, and typed decoding.

=====================  =============================  ==========================================
Python                 JSON                           MessagePack
=====================  =============================  ==========================================
dataclass, dict        object                         map
list, tuple, set       array                          array
bytes                  base64 text                    bin
datetime, date, time   ISO 8601 text                  timestamp (aware datetime), else ISO text
enum                   its value                      its value
numpy scalar           number, bool                   number, bool
array                  flat list of elements, C order extension 1: dtype, shape, bytes
NaN, infinity          an error                       float
int beyond 64 bits     number                         an error
=====================  =============================  ==========================================

What cannot travel is an :class:`~openenv.core.errors.EncodeError` that names its path. Nothing here executes what it
reads, and no allocation is larger than the message.
"""

from __future__ import annotations

import dataclasses
import json
import math
import struct
import sys
from functools import cache
from typing import Any, TypeVar, cast

import msgspec

from openenv.core.errors import ConfigurationError, DecodeError, EncodeError, NotJSON, ProtocolError

JSON = "application/json"
MSGPACK = "application/msgpack"

_ARRAY_EXT = 1
_MAX_DIMENSIONS = 32
#: numpy's letter and size of an element, in the letters of :mod:`struct`.
_FORMATS = {
    "b1": "?",
    "i1": "b",
    "u1": "B",
    "i2": "h",
    "u2": "H",
    "i4": "i",
    "u4": "I",
    "i8": "q",
    "u8": "Q",
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "ff",
    "c16": "dd",
}

T = TypeVar("T")


class _Unfit(Exception):
    """A value that cannot be encoded; the path is found afterwards, off the fast path."""


# --- encoding ---------------------------------------------------------------------------------------------------


def _as_array(value: Any) -> Any:
    """``value`` as a little-endian numpy array, or ``None`` where it is no array of numbers."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(value, "__array__"):
        return None
    array = numpy.asarray(value)
    if array.dtype.kind not in "biufc":
        raise _Unfit(f"an array of dtype {array.dtype} cannot travel; use numbers or booleans, or a list")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array


def _for_json(value: Any) -> Any:
    array = _as_array(value)
    if array is None:
        return _plain(value)
    if array.dtype.kind == "c" or (array.dtype.kind == "f" and not _all_finite(array)):
        raise _Unfit("NaN, infinity and complex numbers have no place in JSON")
    return array.item() if array.ndim == 0 else array.ravel().tolist()


def _for_msgpack(value: Any) -> Any:
    array = _as_array(value)
    if array is None:
        return _plain(value)
    if array.ndim == 0:
        return array.item()
    dtype = array.dtype.str.encode("ascii")
    head = struct.pack(f"<B{len(dtype)}sB{array.ndim}I", len(dtype), dtype, array.ndim, *array.shape)
    return msgspec.msgpack.Ext(_ARRAY_EXT, b"".join((head, array.tobytes())))


def _plain(value: Any) -> Any:
    """What stands for a value that msgspec does not know by itself."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, range):
        return list(value)
    raise _Unfit(f"a value of type {type(value).__qualname__} cannot travel")


def _all_finite(array: Any) -> bool:
    return bool(sys.modules["numpy"].isfinite(array).all())


_json_encoder = msgspec.json.Encoder(enc_hook=_for_json)
_msgpack_encoder = msgspec.msgpack.Encoder(enc_hook=_for_msgpack)


def to_json(value: Any) -> bytes:
    """``value`` as strict JSON, in UTF-8.

    Raises:
        EncodeError: Something in it cannot travel as JSON; ``path`` says what.
    """
    try:
        data = _json_encoder.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate: only the standard library can write it, as an escape.
        data = json.dumps(_builtins(value), allow_nan=False).encode("ascii")
    except (_Unfit, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _encode_error(value, error, _json_encoder) from None
    if b"null" in data and _holds_nan(value):  # msgspec writes null for NaN without a word
        raise _encode_error(value, _Unfit("NaN and infinity have no place in JSON"), _json_encoder)
    return data


def to_msgpack(value: Any) -> bytes:
    """``value`` as MessagePack.

    Raises:
        EncodeError: Something in it cannot travel; ``path`` says what.
    """
    try:
        return _msgpack_encoder.encode(value)
    except (_Unfit, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _encode_error(value, error, _msgpack_encoder) from None


def _builtins(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=_for_json, str_keys=True)


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f".{key}" if isinstance(key, str) else f"[{key!r}]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{name}", item) for name, item in fields(value).items()]
    return []


def _holds_nan(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(_holds_nan(item) for _, item in _children(value))


def _encode_error(value: Any, error: Exception, encoder: Any) -> EncodeError:
    path, culprit = "$", value
    for _ in range(50):  # deeper is a cycle
        for step, child in _children(culprit):
            try:
                encoder.encode(child)
                bad = encoder is _json_encoder and _holds_nan(child)
            except Exception as inner:  # noqa: BLE001 - whatever it is, it is what we are looking for
                error, bad = inner, True
            if bad:
                path, culprit = path + step, child
                break
        else:
            break
    shown = repr(culprit) if not isinstance(error, RecursionError) else "a structure that holds itself"
    reason = str(error) or type(error).__name__
    return EncodeError(
        f"{path} cannot be sent: {reason}; got {shown[:80]}",
        remedy="Send numbers, text, booleans, None, bytes, lists, dicts, dataclasses or numeric arrays.",
        path=path,
    )


# --- decoding ---------------------------------------------------------------------------------------------------


def _read_ext(code: int, data: memoryview) -> Any:
    if code != _ARRAY_EXT:
        raise ValueError(f"unknown extension type {code}")
    size = data[0]
    name = bytes(data[1 : 1 + size]).decode("ascii")
    dimensions = data[1 + size]
    start = 2 + size + 4 * dimensions
    if name[:1] not in ("|", "<") or name[1:] not in _FORMATS or dimensions > _MAX_DIMENSIONS or len(data) < start:
        raise ValueError(f"malformed array (dtype {name!r}, {dimensions} dimensions)")
    shape = struct.unpack_from(f"<{dimensions}I", data, 2 + size)
    count, body = math.prod(shape), data[start:]
    if count * int(name[2:]) != len(body):
        raise ValueError(f"malformed array: shape {shape} of {name} does not fit {len(body)} bytes")
    try:
        import numpy
    except ImportError:
        code_letters = _FORMATS[name[1:]]
        flat = struct.unpack(f"<{count * len(code_letters)}{code_letters[0]}", body)
        return list(flat) if len(code_letters) == 1 else [complex(*p) for p in zip(flat[::2], flat[1::2], strict=True)]
    return numpy.frombuffer(body, dtype=name).reshape(shape)


_json_decoder = msgspec.json.Decoder()
_msgpack_decoder = msgspec.msgpack.Decoder(ext_hook=_read_ext)


def from_json(data: bytes | bytearray) -> Any:
    """The value of a JSON text. ``NaN`` and ``Infinity``, which some servers write, are read too.

    Raises:
        NotJSON: It is not JSON.
    """
    try:
        return _json_decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        pass  # the standard library reads NaN, a byte order mark and escaped surrogates
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotJSON(f"not JSON: {error}", msg=str(error), pos=getattr(error, "pos", 0)) from None


def from_msgpack(data: bytes | bytearray) -> Any:
    """The value of a MessagePack message.

    Arrays are numpy arrays that share the memory of ``data`` (read-only if it is ``bytes``, the caller's own if it is
    a ``bytearray``), or flat lists where numpy is not installed.

    Raises:
        ProtocolError: It is malformed.
    """
    try:
        return _msgpack_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, IndexError, struct.error, RecursionError, TypeError) as error:
        raise ProtocolError(f"malformed MessagePack: {error}") from None


def decode(cls: type[T], value: Any, *, where: str = "$") -> T:
    """``value`` as an instance of the dataclass ``cls``, checked.

    Keys that ``cls`` does not know are kept: in ``metadata`` where it has one, else as the attribute ``extra``.

    Raises:
        DecodeError: A field is missing or of the wrong type; ``path`` (below ``where``) and ``expected`` say which.
    """
    made = _convert(cls, value, where)
    known = _field_names(cast(Any, cls))
    if known and not known.issuperset(value):
        unknown = {key: item for key, item in value.items() if key not in known}
        if "metadata" in known:
            made.metadata = {**unknown, **(made.metadata or {})}  # type: ignore[attr-defined]
        else:
            object.__setattr__(made, "extra", unknown)
    return made


def strict_decode(cls: type[T], value: Any, *, where: str = "$") -> T:
    """As :func:`decode`, but keys that ``cls`` does not know are a :class:`DecodeError` that names them."""
    known = _field_names(cast(Any, cls))
    if known and isinstance(value, dict) and not known.issuperset(value):
        unknown = sorted(str(key) for key in value if key not in known)
        raise DecodeError(
            f"{where} has unknown fields: {', '.join(unknown)}; {cls.__name__} has {', '.join(sorted(known))}",
            path=f"{where}.{unknown[0]}",
            expected=f"one of {', '.join(sorted(known))}",
        )
    return _convert(cls, value, where)


def _convert(cls: type[T], value: Any, where: str) -> T:
    validate = getattr(cls, "model_validate", None)
    try:
        if validate is not None:
            return cast(T, validate(value))
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        if isinstance(value, dict) and any(hasattr(item, "tolist") for item in value.values()):
            # The wire carried an array where the class says list: give the flat list that JSON would have brought.
            flat = {k: v.ravel().tolist() if hasattr(v, "ravel") else v for k, v in value.items()}
            return _convert(cls, flat, where)
        raise _decode_error(cls, str(error), where) from None
    except ValueError as error:  # pydantic's
        raise _decode_error(cls, str(error), where) from None
    except (TypeError, NameError) as error:
        raise ConfigurationError(
            f"{cls.__name__} cannot be decoded: {error}",
            remedy="Use types that msgspec can check (see its list of supported types), or Any for that field.",
        ) from error


def _decode_error(cls: type, reason: str, where: str) -> DecodeError:
    expected, _, path = reason.partition(" - at `$")
    path = where + path.rstrip("`")
    return DecodeError(f"{cls.__name__} does not fit what came, at {path}: {expected}", path=path, expected=expected)


@cache
def _field_names(cls: Any) -> frozenset[str]:
    """The fields of a dataclass, or none where unknown keys are the business of ``cls`` itself."""
    return frozenset(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else frozenset()


def fields(value: Any) -> dict[str, Any]:
    """One level of a dataclass, a dict or a model as a new dict; the values are untouched.

    Raises:
        EncodeError: It is none of these.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: getattr(value, name) for name in _ordered_names(type(value))}
    if isinstance(value, dict):
        return dict(value)
    if hasattr(value, "model_dump"):
        return cast("dict[str, Any]", value.model_dump())
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {name: item for name, item in vars(value).items() if not name.startswith("_")}
    raise EncodeError(
        f"an action must be a dataclass or a dict; got {type(value).__name__} {value!r:.60}",
        remedy="Make an instance of the environment's action class.",
    )


@cache
def _ordered_names(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema of a dataclass or model; ``{}`` parts where a type has none."""
    make = getattr(cls, "model_json_schema", None)
    if make is not None:
        return cast("dict[str, Any]", make())
    schema = msgspec.json.schema(cls, schema_hook=lambda _: {})
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    # One plain object at the top, as people read it, rather than a reference to it.
    own = definitions.pop(reference.removeprefix("#/$defs/"), None)
    if own is None:
        return schema
    return {**own, "$defs": definitions} if definitions else own
