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
lone surrogate         an escape                      an error
key that is no text    its text (numbers, dates)      itself
=====================  =============================  ==========================================

What cannot travel is an :class:`~openenv.core.errors.EncodeError` that names its path. Nothing here executes what it
reads, and no length that a message claims is believed before its bytes are there.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
import reprlib
import struct
import sys
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from openenv.core.errors import ConfigurationError, DecodeError, EncodeError, NotJSON, ProtocolError
from openenv.core.msgpack_keys import refuse_list_keys

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
    if numpy is None or not hasattr(value, "__array__") or isinstance(value, (str, bytes)):
        return None
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:  # such as a tensor's that wants to be detached
        raise _Unfit(f"{type(value).__qualname__} gives no array: {error}") from None
    if array.dtype.str[1:] not in _FORMATS:
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
    return msgspec.msgpack.Ext(
        _ARRAY_EXT, b"".join((head, array.data if array.flags.c_contiguous else array.tobytes()))
    )


def _plain(value: Any) -> Any:
    """What stands for a value that msgspec does not know by itself."""
    kind: Any
    for kind in (str, int, float, bytes):
        if isinstance(value, kind) and not isinstance(value, bool):  # of a subclass, such as numpy's text
            return kind.__getnewargs__(value)[0]
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, range):
        return list(value)
    raise _Unfit(f"a value of type {type(value).__qualname__} cannot travel")


def _all_finite(array: Any) -> bool:
    return bool(sys.modules["numpy"].isfinite(array).all())


_json_encoder = msgspec.json.Encoder(enc_hook=_for_json)
_msgpack_encoder = msgspec.msgpack.Encoder(enc_hook=_for_msgpack)

_NO_NAN = "NaN and infinity have no place in JSON"
_UNENCODABLE = (_Unfit, TypeError, ValueError, OverflowError, RecursionError)


def to_json(value: Any) -> bytes:
    """``value`` as strict JSON, in UTF-8.

    Raises:
        EncodeError: Something in it cannot travel as JSON; ``path`` says what.
    """
    try:
        return _strict_json(value)
    except _UNENCODABLE as error:
        raise _encode_error(value, error, _strict_json) from None


def to_msgpack(value: Any) -> bytes:
    """``value`` as MessagePack.

    Raises:
        EncodeError: Something in it cannot travel; ``path`` says what.
    """
    try:
        return _msgpack_encoder.encode(value)
    except _UNENCODABLE as error:
        raise _encode_error(value, error, _msgpack_encoder.encode) from None


def _strict_json(value: Any) -> bytes:
    try:
        data = _json_encoder.encode(value)
    except UnicodeEncodeError:
        # A lone surrogate: only the standard library can write it, as an escape.
        plain = msgspec.to_builtins(value, enc_hook=_for_json, str_keys=True)
        return json.dumps(plain, allow_nan=False).encode("ascii")
    if b"null" in data and _holds_nan(value):  # msgspec writes null for NaN without a word
        raise _Unfit(_NO_NAN)
    return data


def _holds_nan(value: Any) -> bool:
    waiting = [msgspec.to_builtins(value, enc_hook=_without_arrays, str_keys=True)]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is float:
            if not math.isfinite(item):
                return True
        elif kind is dict:
            waiting.extend(item.values())
        elif kind is list or kind is tuple:
            waiting.extend(item)
    return False


def _without_arrays(value: Any) -> Any:
    return _plain(value) if _as_array(value) is None else None  # those were looked at when they were encoded


# --- what could not be encoded ---

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 80


def _show(value: Any) -> str:
    try:
        return _shown.repr(value)
    except ValueError:  # an int of too many digits
        return f"a value of type {type(value).__qualname__}"


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f".{key}" if isinstance(key, str) else f"[{_show(key)}]", item) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [(f"[{index}]", item) for index, item in enumerate(value)]
    if hasattr(value, "model_dump") or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return [(f".{name}", item) for name, item in fields(value).items()]
    return []


def _failure(encode: Callable[[Any], bytes], value: Any) -> Exception | None:
    try:
        encode(value)
    except _UNENCODABLE as error:
        return error
    return None


def _encode_error(value: Any, error: Exception, encode: Callable[[Any], bytes]) -> EncodeError:
    """Find the innermost value that cannot be encoded; ``encode`` is tried on each child."""
    path, culprit, above = "$", value, [id(value)]
    while len(above) < 500:
        for step, child in _children(culprit):
            found = _failure(encode, child)
            if found is not None:
                path, culprit, error = path + step, child, found
                break
        else:
            break
        if id(culprit) in above:
            error = _Unfit("it holds itself")
            break
        above.append(id(culprit))
    if isinstance(error, RecursionError):
        path, culprit, error = "$", value, _Unfit("it is nested too deeply")
    reason = str(error) or type(error).__name__
    if isinstance(culprit, dict) and (keys := [key for key in culprit if _failure(encode, {key: None})]):
        path, reason = f"{path}[{_show(keys[0])}]", f"{reason} as a key"
    return EncodeError(
        f"{path} cannot be sent: {reason}; got {_show(culprit)}",
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
        refuse_list_keys(data)
        return _msgpack_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, IndexError, struct.error, RecursionError, TypeError) as error:
        raise ProtocolError(f"malformed MessagePack: {error}") from None


def decode(cls: type[T], value: Any, *, where: str = "$") -> T:
    """``value`` as an instance of the dataclass ``cls``, checked.

    Keys that ``cls`` does not know are kept: in ``metadata`` where it has one, else as the attribute ``extra``.

    Raises:
        DecodeError: A field is missing or of the wrong type; ``path`` (below ``where``) and ``expected`` say which.
    """
    quick = _by_hand(cls, value)
    if quick is not None:
        return quick
    made = _convert(cls, value, where)
    known: frozenset[str] = field_names(cls)  # type: ignore[arg-type]
    if known and not known.issuperset(value):
        unknown = {key: item for key, item in value.items() if key not in known}
        metadata = getattr(made, "metadata", None)
        if "metadata" in known and (metadata is None or isinstance(metadata, dict)):
            if metadata:
                unknown |= metadata
            object.__setattr__(made, "metadata", unknown)
        elif hasattr(made, "__dict__"):  # not with slots
            object.__setattr__(made, "extra", unknown)
    return made


def strict_decode(cls: type[T], value: Any, *, where: str = "$") -> T:
    """As :func:`decode`, but keys that ``cls`` does not know are a :class:`DecodeError` that names them."""
    known: frozenset[str] = field_names(cls)  # type: ignore[arg-type]
    if known and isinstance(value, dict) and not known.issuperset(value):
        unknown = sorted(str(key) for key in value if key not in known)
        raise DecodeError(
            f"{where} has unknown fields: {', '.join(unknown)}; {cls.__name__} has {', '.join(sorted(known))}",
            path=f"{where}.{unknown[0]}",
            expected=f"one of {', '.join(sorted(known))}",
        )
    quick = _by_hand(cls, value)
    return _convert(cls, value, where) if quick is None else quick


def _convert(cls: type[T], value: Any, where: str) -> T:
    validate = _validator(cls)  # type: ignore[arg-type]
    try:
        if validate is not None:
            return cast(T, validate(value))
        return msgspec.convert(value, cls, str_keys=True)
    except msgspec.ValidationError as error:
        reason = str(error)
    except ValueError as error:  # pydantic's
        raise _decode_error(cls, str(error), where) from None
    except (TypeError, NameError) as error:
        raise ConfigurationError(
            f"{_name(cls)} cannot be decoded: {error}",
            remedy="Use types that msgspec can check (see its list of supported types), or Any for that field.",
        ) from error
    # The wire may have carried an array where the class says list: give the flat list that JSON would have brought.
    found = _PLACE.search(reason)
    name = found and found["field"]
    if name and isinstance(value, dict) and name in value and (flat := _flat(value[name])) is not value[name]:
        return _convert(cls, {**value, name: flat}, where)
    raise _decode_error(cls, reason, where) from None


#: The kinds of a field that takes anything.
_ANYTHING: frozenset[type] = frozenset()
_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _plain_fields(cls: Any) -> dict[str, frozenset[type]]:
    """The kinds of every field, where a look at a value's type is check enough for all of them; else nothing."""
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__post_init__") or not isinstance(cls, type):
        return {}
    if not cls.__dataclass_params__.init or not all(f.init for f in dataclasses.fields(cls)):  # type: ignore[attr-defined]
        return {}
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError):  # msgspec says it better
        return {}
    found = {f.name: _kinds(hints[f.name]) for f in dataclasses.fields(cls)}
    return {} if None in found.values() else cast("dict[str, frozenset[type]]", found)


def _kinds(hint: Any) -> frozenset[type] | None:
    if hint is Any:
        return _ANYTHING
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if any(kind not in _PLAIN and kind != dict[str, Any] for kind in kinds):
        return None
    return frozenset(get_origin(kind) or kind for kind in kinds)


def _by_hand(cls: type[T], value: Any) -> T | None:
    """What :func:`decode` would make, in a fifth of the time; ``None`` where msgspec must convert or refuse."""
    make = _maker(cls)  # type: ignore[arg-type]
    return make(value) if make is not None and type(value) is dict else None


_MISSING: Any = object()


@cache
def _maker(cls: Any) -> Callable[[dict[str, Any]], Any] | None:
    """A function that is written for ``cls``, as ``dataclasses`` writes its constructor; ``None`` where none can be.

    Values are put where the generated constructor would put them, after a look at the type of each.
    """
    plain = _plain_fields(cls)
    if not plain or not _is_constructed_plainly(cls, plain):
        return None
    known: dict[str, Any] = {
        "cls": cls,
        "new": object.__new__,
        "missing": _MISSING,
        "names": frozenset(plain),
    }
    lines = ["def make(given):", " left = len(given)", " made = new(cls)", " own = made.__dict__"]
    for place, field in enumerate(dataclasses.fields(cls)):
        kinds = plain[field.name]
        lines += [f" value = given.get({field.name!r}, missing)", " if value is missing:"]
        if field.default is not dataclasses.MISSING:
            known[f"default{place}"] = field.default
            lines.append(f"  value = default{place}")
        elif field.default_factory is not dataclasses.MISSING:
            known[f"default{place}"] = field.default_factory
            lines.append(f"  value = default{place}()")
        else:
            lines.append("  return None")
        lines += [" else:", "  left -= 1"]
        if len(kinds) == 1:
            (known[f"kind{place}"],) = kinds
            lines += [f"  if type(value) is not kind{place}: return None"]
        elif kinds:
            known[f"kinds{place}"] = kinds
            lines += [f"  if type(value) not in kinds{place}: return None"]
        if dict in kinds:
            lines += ["  if type(value) is dict:", "   for name in value:", "    if type(name) is not str: return None"]
            lines += ["   value = value.copy()"]
        lines.append(f" own[{field.name!r}] = value")
    lines.append(" if left:")
    if dict in plain.get("metadata", ()):
        lines += ["  unknown = {}", "  for name in given:", "   if name not in names: unknown[name] = given[name]"]
        lines += ["  unknown.update(own['metadata'] or {})", "  own['metadata'] = unknown"]
    else:
        lines += ["  return None"]
    lines.append(" return made")
    exec("\n".join(lines), known)
    made: Callable[[dict[str, Any]], Any] = known["make"]
    return made


def _is_constructed_plainly(cls: Any, plain: dict[str, Any]) -> bool:
    """Whether constructing does nothing but set the fields in the instance's dictionary."""
    owner = next(base for base in cls.__mro__ if "__dataclass_params__" in base.__dict__)
    return (
        cls.__init__ is owner.__dict__.get("__init__")
        and cls.__new__ is object.__new__
        and cls.__dictoffset__ != 0
        and not any(hasattr(inspect.getattr_static(cls, name, None), "__set__") for name in plain)
    )


#: How msgspec says where: "- at `$.a[0]`", "- at `key` in `$.a`".
_PLACE = re.compile(r" - at (?:`key` in )?`\$(?P<path>(?:\.(?P<field>[^.\[`]+))?[^`]*)`$")


def _flat(value: Any) -> Any:
    """``value`` with arrays as flat lists; the same object where it holds none."""
    if hasattr(value, "ravel"):
        return value.ravel().tolist()
    if isinstance(value, dict):
        made: Any = {key: _flat(item) for key, item in value.items()}
        return made if any(made[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        made = [_flat(item) for item in value]
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    return value


def _decode_error(cls: type, reason: str, where: str) -> DecodeError:
    found = _PLACE.search(reason)
    path, expected = where, reason
    if found:
        path, expected = where + found["path"], reason[: found.start()]
    return DecodeError(f"{_name(cls)} does not fit what came, at {path}: {expected}", path=path, expected=expected)


def _name(cls: Any) -> str:
    return getattr(cls, "__name__", None) or str(cls)


@cache
def _validator(cls: Any) -> Any:
    """How a pydantic model is made; ``None`` for everything else."""
    return getattr(cls, "model_validate", None)


@cache
def field_names(cls: Any) -> frozenset[str]:
    """The fields of a dataclass, or none where unknown keys are the business of ``cls`` itself."""
    return frozenset(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else frozenset()


def fields(value: Any) -> dict[str, Any]:
    """One level of a dataclass, a dict or a model as a new dict; the values are untouched.

    Raises:
        EncodeError: It is none of these.
    """
    if names := _ordered_names(type(value)):  # type: ignore[arg-type]
        return {name: getattr(value, name) for name in names}
    if isinstance(value, dict):
        return dict(value)
    if dataclasses.is_dataclass(type(value)):
        return {}
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
    return tuple(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


def _open_schema(kind: type) -> dict[str, Any]:
    """The schema of a type of which JSON Schema knows nothing."""
    return {"type": "array"} if hasattr(kind, "__array__") else {"title": kind.__name__}


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema of a dataclass or model; ``{}`` parts where a type has none."""
    make = getattr(cls, "model_json_schema", None)
    if make is not None:
        return cast("dict[str, Any]", make())
    schema = msgspec.json.schema(cls, schema_hook=_open_schema)
    reference = schema.get("$ref", "")
    definitions = schema.get("$defs", {})
    # One plain object at the top, as people read it, rather than a reference to it.
    own = definitions.pop(reference.removeprefix("#/$defs/"), None)
    if own is None:
        return schema
    return {**own, "$defs": definitions} if definitions else own
