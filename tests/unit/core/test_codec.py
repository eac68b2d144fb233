"""The table in the docstring of the codec, row by row, and what cannot travel."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import json
import math
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from dataclasses_json import DataClassJsonMixin
from hypothesis import given, settings
from hypothesis import strategies as st

from openenv.core import codec
from openenv.core.errors import ConfigurationError, DecodeError, EncodeError, NotJSON, ProtocolError

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC
SEEDED = settings(max_examples=60, deadline=None, derandomize=True, database=None)
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)


class Color(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.IntEnum):
    LOW = 1


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass
class Inner:
    name: str
    value: Any = None


@dataclass
class Outer:
    inner: Inner
    many: list[Inner] = field(default_factory=list)


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not what it is"


class Number(int):
    pass


class Real(float):
    pass


class Model:
    """As a pydantic model."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def model_dump(self) -> dict[str, Any]:
        return self.values


def through_json(value: Any) -> Any:
    data = codec.to_json(value)
    json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return codec.from_json(data)


def through_msgpack(value: Any) -> Any:
    return codec.from_msgpack(codec.to_msgpack(value))


BOTH = pytest.mark.parametrize("through", [through_json, through_msgpack])
Through = Callable[[Any], Any]


# --- one row of the table each ----------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (None, None),
        (True, True),
        (-7, -7),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (0.1, 0.1),
        ("", ""),
        ("é \U0001f600 \x00 \u2028", "é \U0001f600 \x00 \u2028"),
        ({"a": {"b": [1, None]}}, {"a": {"b": [1, None]}}),
        ((1, 2), [1, 2]),
        ({3}, [3]),
        (frozenset({3}), [3]),
        (range(3), [0, 1, 2]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (Color.RED, "red"),
        (Color.ONE, 1),
        (Level.LOW, 1),
        (Inner("n", Inner("m")), {"name": "n", "value": {"name": "m", "value": None}}),
        (Outer(Inner("a"), [Inner("b", 1)]), {"inner": {"name": "a", "value": None}, "many": [{"name": "b", "value": 1}]}),  # noqa: E501
        (Model(a=1, b=[Color.RED]), {"a": 1, "b": ["red"]}),
        (dt.datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04:00"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (dt.time(3, 4), "03:04:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal("1.50"), "1.50"),
    ],
)  # fmt: skip
def test_a_value_arrives_as_the_table_says(through: Through, value: Any, arrives: Any) -> None:
    seen = through(value)
    assert seen == arrives
    assert type(seen) is type(arrives)


@BOTH
@pytest.mark.parametrize(
    ("value", "arrives"),
    [(Text("a"), "a"), (Number(3), 3), (Real(0.5), 0.5), (np.str_("a"), "a"), ({"k": [Text("b")]}, {"k": ["b"]})],
)
def test_a_subclass_of_a_plain_type_travels_as_that_type(through: Through, value: Any, arrives: Any) -> None:
    assert through(value) == arrives


@pytest.mark.parametrize(
    "value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff"), np.bytes_(b"\x00\xff")]
)
def test_bytes_are_base64_in_json_and_bytes_in_msgpack(value: Any) -> None:
    assert through_json(value) == "AP8="
    assert through_msgpack(value) == b"\x00\xff"


def test_an_aware_datetime_is_text_in_json_and_a_moment_in_msgpack() -> None:
    elsewhere = MOMENT.astimezone(dt.timezone(dt.timedelta(hours=5)))
    assert through_json(MOMENT) == "2024-02-29T12:30:15.123456Z"
    assert dt.datetime.fromisoformat(through_json(elsewhere)) == MOMENT
    assert through_msgpack(elsewhere) == MOMENT


@pytest.mark.parametrize("value", [NAN, INF, -INF, np.float64(NAN), np.float32(INF), Real(NAN)])
@pytest.mark.parametrize(
    "wrap", [lambda v: v, lambda v: {"a": [None, v]}, lambda v: Inner("null", v), lambda v: Model(a=v)]
)
def test_nan_and_infinity_are_an_error_in_json_and_arrive_in_msgpack(value: float, wrap: Any) -> None:
    with pytest.raises(EncodeError, match="NaN"):
        codec.to_json(wrap(value))
    seen = through_msgpack(wrap(value))
    while not isinstance(seen, float):
        seen = seen["a" if "a" in seen else "value"] if isinstance(seen, dict) else seen[-1]
    assert seen == value or (math.isnan(seen) and math.isnan(value))


def test_null_beside_numbers_is_no_nan() -> None:
    assert (
        codec.to_json({"a": None, "b": [1.5, "null"], "c": np.zeros(2)}) == b'{"a":null,"b":[1.5,"null"],"c":[0.0,0.0]}'
    )


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**400])
def test_an_int_beyond_64_bits_is_a_number_in_json_and_an_error_in_msgpack(value: int) -> None:
    assert through_json([value]) == [value]
    with pytest.raises(EncodeError, match=r"^\$\[0\] cannot be sent"):
        codec.to_msgpack([value])


def test_an_int_that_python_itself_will_not_write_is_an_encode_error() -> None:
    with pytest.raises(EncodeError):
        codec.to_json({"a": 10**5000})


def test_a_lone_surrogate_is_an_escape_in_json_and_an_error_in_msgpack() -> None:
    value = {"\udc80": ["\ud800", np.arange(2), Inner("x")]}
    assert codec.to_json(value).isascii()
    assert through_json(value) == {"\udc80": ["\ud800", [0, 1], {"name": "x", "value": None}]}
    with pytest.raises(EncodeError) as caught:
        codec.to_msgpack({"a": "\ud800"})
    assert caught.value.path == "$.a"


def test_a_surrogate_does_not_let_nan_through() -> None:
    with pytest.raises(EncodeError) as caught:
        codec.to_json({"a": "\ud800", "b": [NAN]})
    assert caught.value.path == "$.b[0]"


def test_keys_that_are_no_text_are_their_text_in_json_and_themselves_in_msgpack() -> None:
    value = {1: "a", np.int64(2): "b", Color.RED: "c"}
    assert through_json(value) == {"1": "a", "2": "b", "red": "c"}
    assert through_msgpack(value) == {1: "a", 2: "b", "red": "c"}


@pytest.mark.parametrize("key", [None, True, (1, 2), Inner])
def test_a_key_that_has_no_text_is_an_error_that_names_it(key: Any) -> None:
    with pytest.raises(EncodeError, match="as a key") as caught:
        codec.to_json({"a": {"fine": 1, key: 2}})
    assert caught.value.path.startswith("$.a[")


# --- arrays -----------------------------------------------------------------------------------------------------

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_arrives_with_dtype_and_shape_in_msgpack(dtype: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    seen = through_msgpack({"a": array})["a"]
    assert seen.dtype == array.dtype
    assert seen.shape == (2, 3)
    np.testing.assert_array_equal(seen, array)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.startswith("c")])
def test_an_array_is_a_flat_list_in_json(dtype: str) -> None:
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    assert through_json({"a": array}) == {"a": array.ravel().tolist()}


BASE = np.arange(24, dtype="i4").reshape(2, 3, 4)


@pytest.mark.parametrize(
    "array",
    [
        BASE[:, ::2],
        BASE[::-1],
        BASE.T,
        np.asfortranarray(BASE),
        BASE.astype(">i4"),
        BASE.astype(">f8")[:, 1],
        np.broadcast_to(np.arange(4), (3, 4)),
        np.zeros((0, 3)),
        np.zeros((3, 0), dtype="u1"),
        np.arange(3)[:0],
        np.zeros((1,) * 32, dtype="u1"),
    ],
    ids=str,
)
def test_an_array_of_any_layout_is_sent_in_c_order_and_little_endian(array: Any) -> None:
    seen = through_msgpack(array)
    assert seen.shape == array.shape
    assert seen.dtype.byteorder in "=<|"
    np.testing.assert_array_equal(seen, array)
    assert through_json(array) == array.ravel().tolist()


def test_the_bytes_of_an_array_are_those_of_the_protocol() -> None:
    array = np.array([[1, 2], [3, 4]], dtype=">u2")
    body = b"\x03<u2" + b"\x02" + struct.pack("<II", 2, 2) + struct.pack("<4H", 1, 2, 3, 4)
    assert codec.to_msgpack(array) == b"\xc7" + bytes([len(body), 1]) + body
    assert codec.to_msgpack(np.array([True]))[3:7] == b"\x03|b1"


@BOTH
@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (np.int8(-1), -1),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float16(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.array(3), 3),
        (np.array(0.5), 0.5),
        (np.array(False), False),
        (np.array(3, dtype=">i2"), 3),
    ],
)
def test_a_numpy_scalar_and_an_array_without_dimensions_are_one_plain_value(
    through: Through, value: Any, arrives: Any
) -> None:
    seen = through([value])[0]
    assert seen == arrives
    assert type(seen) is type(arrives)


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, "a"], dtype=object),
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["2024-01-01"], dtype="M8[D]"),
        np.array([1], dtype="m8[s]"),
        np.zeros(2, dtype=[("a", "i4")]),
        np.zeros(2, dtype=np.longdouble),
        np.zeros(2, dtype=np.clongdouble),
        np.longdouble(1),
        np.datetime64("2024-01-01"),
    ],
    ids=lambda a: str(a.dtype),
)
@pytest.mark.parametrize("encode", [codec.to_json, codec.to_msgpack])
def test_an_array_of_what_is_no_number_is_an_error_that_names_dtype_and_path(
    encode: Callable[[Any], bytes], array: Any
) -> None:
    with pytest.raises(EncodeError, match="dtype") as caught:
        encode({"a": [1, array]})
    assert caught.value.path == "$.a[1]"


@pytest.mark.parametrize("array", [np.array([NAN]), np.array([[1, -INF]], dtype="f2"), np.array([1j])])
def test_an_array_that_json_cannot_hold_is_an_error_and_arrives_in_msgpack(array: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        codec.to_json({"obs": array})
    assert caught.value.path == "$.obs"
    np.testing.assert_array_equal(through_msgpack(array), array)


def test_what_only_looks_like_an_array_is_asked_for_one() -> None:
    class Tensor:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3)

    class Attached:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            raise RuntimeError("call detach() first")

    assert through_json(Tensor()) == [0, 1, 2]
    assert through_msgpack(Tensor()).tolist() == [0, 1, 2]
    with pytest.raises(EncodeError, match="detach"):
        codec.to_json([Attached()])


def test_an_array_shares_the_memory_of_the_message() -> None:
    data = codec.to_msgpack(np.arange(4, dtype="u1"))
    fixed, own = codec.from_msgpack(data), codec.from_msgpack(held := bytearray(data))
    assert not fixed.flags.writeable
    assert own.flags.writeable
    held[-1] = 9
    assert own.tolist() == [0, 1, 2, 9]


def test_without_numpy_arrays_are_flat_lists() -> None:
    values = {d: codec.to_msgpack(np.array([[0, 1], [2, 3]]).astype(d)).hex() for d in DTYPES}
    script = """
import sys
sys.modules["numpy"] = None
import json
from openenv.core import codec
for name, message in json.loads(sys.stdin.read()).items():
    seen = codec.from_msgpack(bytes.fromhex(message))
    assert seen == ([False, True, True, True] if name == "?" else [0, 1, 2, 3]), (name, seen)
    assert type(seen) is list
for bad in ("c70401033c6634", "c70801033c66340102000000"):
    try:
        codec.from_msgpack(bytes.fromhex(bad))
    except codec.ProtocolError:
        continue
    raise SystemExit(bad)
print(codec.from_json(codec.to_json([1.5, None])))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1.5, None]"


# --- what cannot travel -----------------------------------------------------------------------------------------


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize("encode", [codec.to_json, codec.to_msgpack])
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (object(), "$"),
        (Broken(), "$"),
        ({"a": object()}, "$.a"),
        ({"a": [0, {"b": (1, object())}]}, "$.a[1].b[1]"),
        (Outer(Inner("x"), [Inner("y"), Inner("z", {"q": len})]), "$.many[1].value.q"),
        ({"a": {3: object()}}, "$.a[3]"),
        (Model(a=[object()]), "$.a[0]"),
        ([1, iter(())], "$[1]"),
        ({"a": 1j}, "$.a"),
        ({"a": Inner}, "$.a"),
        ({"a": ValueError("x")}, "$.a"),
        ({f"k{n}": n for n in range(500)} | {"last": object()}, "$.last"),
    ],
)
def test_what_cannot_travel_is_an_error_that_names_its_path(
    encode: Callable[[Any], bytes], value: Any, path: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(value)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path} cannot be sent: ")
    assert len(str(caught.value)) < 600
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize("encode", [codec.to_json, codec.to_msgpack])
def test_a_structure_that_holds_itself_is_an_error_that_says_where(encode: Callable[[Any], bytes]) -> None:
    looped: dict[str, Any] = {"x": [1]}
    looped["x"].append({"y": looped})
    alone: list[Any] = []
    alone.append(alone)
    node = Inner("n")
    node.value = node
    for value, path in ((looped, "$.x[1].y"), (alone, "$[0]"), (node, "$.value"), ([{"a": alone}], "$[0].a[0]")):
        with pytest.raises(EncodeError, match="holds itself") as caught:
            encode(value)
        assert caught.value.path == path


@pytest.mark.parametrize("encode", [codec.to_json, codec.to_msgpack])
def test_what_is_nested_too_deeply_is_an_error_that_says_so(encode: Callable[[Any], bytes]) -> None:
    value: Any = None
    for _ in range(100_000):
        value = [value]
    with pytest.raises(EncodeError, match="nested too deeply") as caught:
        encode(value)
    assert len(str(caught.value)) < 600
    while value:  # so that freeing it does not recurse
        value = value[0]


# --- reading ----------------------------------------------------------------------------------------------------


def test_nan_and_infinity_of_lax_servers_are_read() -> None:
    seen = codec.from_json(b'{"a": NaN, "b": [Infinity, -Infinity], "c": "NaN"}')
    assert math.isnan(seen["a"])
    assert seen["b"] == [INF, -INF]
    assert seen["c"] == "NaN"


def test_a_byte_order_mark_and_escaped_surrogates_are_read() -> None:
    assert codec.from_json(b"\xef\xbb\xbf{}") == {}
    assert codec.from_json(rb'"\ud800"') == "\ud800"
    assert codec.from_json(bytearray(b"[1]")) == [1]


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b'{"a":}', b"<html>", b"\xff\xff", b'"\xff"', b"[1,]", b"1 2", b"nul", b"[" * 10**6, b"1" * 5000],
)
def test_what_is_no_json_says_so(data: bytes) -> None:
    with pytest.raises(NotJSON) as caught:
        codec.from_json(data)
    assert isinstance(caught.value, ValueError)


def ext(code: int, body: bytes) -> bytes:
    return b"\xc9" + struct.pack(">Ib", len(body), code) + body


def array_message(dtype: bytes, shape: tuple[int, ...], body: bytes) -> bytes:
    head = bytes([len(dtype)]) + dtype + bytes([len(shape)]) + struct.pack(f"<{len(shape)}I", *shape)
    return ext(1, head + body)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x01",
        b"\x92\x01",
        b"\xa2\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91" * 10**6,
        b"\x81\x80\x01",
        b"\x81" + array_message(b"|u1", (1,), b"a") + b"\x01",
        ext(5, b"x"),
        ext(1, b""),
        ext(1, b"\x03"),
        ext(1, b"\x03<f4"),
        ext(1, b"\x03<f4\x02\x01\x00"),
        ext(-1, b"\xff" * 12),
        array_message(b"<f4", (2,), b"1234"),
        array_message(b"<f4", (1,), b"12345"),
        array_message(b"<f4", (), b""),
        array_message(b">f4", (1,), b"1234"),
        array_message(b"=f4", (1,), b"1234"),
        array_message(b"|O8", (1,), b"12345678"),
        array_message(b"<M8", (1,), b"12345678"),
        array_message(b"<U1", (1,), b"1234"),
        array_message(b"|V4", (1,), b"1234"),
        array_message(b"\xff\xff\xff", (1,), b"1"),
        array_message(b"", (1,), b"1"),
        array_message(b"|u1", (1,) * 33, b"1"),
        array_message(b"|u1", (2**32 - 1,) * 3, b"1"),
        array_message(b"<f8", (0, 2**32 - 1, 2**32 - 1, 2**32 - 1), b""),
    ],
    ids=lambda data: data[:24].hex(),
)
def test_malformed_msgpack_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed MessagePack"):
        codec.from_msgpack(data)


def test_keys_that_collide_on_purpose_do_not_hang_the_decoder() -> None:
    # hash(-1) == hash(-2), so all tuples of these have one hash: 16,384 such keys would take seconds, more take hours.
    keys = b"".join(b"\x9e" + bytes(0xFF - (n >> bit & 1) for bit in range(14)) + b"\xc0" for n in range(1 << 14))
    for nested in (b"", b"\x92\xcd\x12\x34", b"\x82\xa1k\xc4\x02\xde\xff\xa1v"):
        with pytest.raises(ProtocolError, match="lists cannot be keys"):
            codec.from_msgpack(nested + b"\xde\x40\x00" + keys)


@SEEDED
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()  # noqa: E501
        | st.datetimes(timezones=st.just(UTC)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-(2**63), 2**64 - 1), inner),
        max_leaves=15,
    )
)  # fmt: skip
def test_msgpack_gives_back_what_it_was_given(value: Any) -> None:
    assert through_msgpack(value) == value


def test_maps_of_many_keys_of_every_kind_are_read() -> None:
    keys: list[Any] = [
        *range(-200, 200, 3),
        *(2**n for n in range(64)),
        *map(str, range(300)),
        "é" * 300,
        0.5,
        b"\xde\xdf",
    ]
    keys += [None, True, MOMENT]
    value = {key: [index, {"k": "v" * index}, np.full(3, 0xDE, "u1").tobytes()] for index, key in enumerate(keys)}
    deep = [0xDE] * 100 + [value, {"\xde": value}]
    assert through_msgpack(deep) == deep


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=15,
)


@SEEDED
@given(json_values)
def test_json_gives_back_what_it_was_given(value: Any) -> None:
    assert through_json(value) == value
    assert json.loads(codec.to_json(value)) == value
    assert codec.from_json(json.dumps(value).encode()) == value


# --- typed decoding ---------------------------------------------------------------------------------------------


@dataclass
class Everything(DataClassJsonMixin):
    text: str
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    maybe: int | None = None
    tags: list[str] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    level: Level = Level.LOW
    side: Side = Side.LEFT
    inner: Inner | None = None
    pair: tuple[int, str] = (0, "")
    grid: list[list[int]] = field(default_factory=list)
    anything: Any = None
    moment: dt.datetime | None = None
    raw: bytes = b""
    by_number: dict[int, str] = field(default_factory=dict)
    when: dt.date | None = None


@dataclass
class WithMetadata(DataClassJsonMixin):
    x: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Frozen:
    x: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slotted:
    x: int = 0


@pytest.mark.parametrize("through", [through_json, through_msgpack])
def test_a_dataclass_arrives_as_it_left(through: Through) -> None:
    sent = Everything(
        text="é",
        count=2**40,
        ratio=0.5,
        flag=True,
        maybe=3,
        tags=["a"],
        scores={"a": 1.0},
        side=Side.RIGHT,
        inner=Inner("n", [1]),
        pair=(1, "b"),
        grid=[[1], []],
        anything={"k": [None]},
        moment=MOMENT,
        raw=b"\x00\xff",
        by_number={3: "c"},
        when=dt.date(2024, 1, 2),
    )
    assert codec.decode(Everything, through(sent)) == sent
    assert codec.strict_decode(Everything, through(sent)) == sent


def test_a_dict_is_a_dataclass_of_its_fields() -> None:
    assert codec.fields(Inner("a", [1])) == {"name": "a", "value": [1]}
    assert codec.fields(given := {"a": 1}) == {"a": 1}
    assert codec.fields(given) is not given
    assert codec.fields(Model(a=1)) == {"a": 1}
    for value in (None, 3, "text", [1], Inner):
        with pytest.raises(EncodeError, match="dataclass or a dict"):
            codec.fields(value)


@pytest.mark.parametrize(
    ("cls", "value", "path", "expected"),
    [
        (Everything, {}, "$.obs", "required field `text`"),
        (Everything, [], "$.obs", "Expected `object`"),
        (Everything, None, "$.obs", "Expected `object`"),
        (Everything, {"text": 3}, "$.obs.text", "Expected `str`, got `int`"),
        (Everything, {"text": "", "count": "3"}, "$.obs.count", "Expected `int`, got `str`"),
        (Everything, {"text": "", "count": True}, "$.obs.count", "Expected `int`"),
        (Everything, {"text": "", "flag": "false"}, "$.obs.flag", "Expected `bool`"),
        (Everything, {"text": "", "count": None}, "$.obs.count", "Expected `int`"),
        (Everything, {"text": "", "tags": [1]}, "$.obs.tags[0]", "Expected `str`"),
        (Everything, {"text": "", "grid": [[0], [0, "x"]]}, "$.obs.grid[1][1]", "Expected `int`"),
        (Everything, {"text": "", "inner": {"name": 1}}, "$.obs.inner.name", "Expected `str`"),
        (Everything, {"text": "", "side": "up"}, "$.obs.side", "Invalid enum value 'up'"),
        (Everything, {"text": "", "by_number": {"x": "y"}}, "$.obs.by_number", "Expected `int`"),
        (Everything, {"text": "", "raw": "*"}, "$.obs.raw", "base64"),
        (Everything, {"text": "", "moment": "yesterday"}, "$.obs.moment", "RFC3339"),
    ],
)
def test_what_does_not_fit_is_an_error_with_path_and_expectation(
    cls: type, value: Any, path: str, expected: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        codec.decode(cls, value, where="$.obs")
    assert caught.value.path == path
    assert expected in caught.value.expected
    assert path in str(caught.value)
    assert "Everything" in str(caught.value)


def test_unknown_keys_are_kept_in_metadata() -> None:
    seen = codec.decode(WithMetadata, {"x": 1, "new": [2], "metadata": {"old": 3}})
    assert seen.metadata == {"old": 3, "new": [2]}
    assert codec.decode(Frozen, {"new": 1}).metadata == {"new": 1}


def test_metadata_of_the_server_wins_over_an_unknown_key_of_its_name() -> None:
    assert codec.decode(WithMetadata, {"a": 1, "metadata": {"a": 2}}).metadata == {"a": 2}


def test_unknown_keys_are_kept_as_extra_where_there_is_no_metadata() -> None:
    assert codec.decode(Inner, {"name": "n", "new": 1}).extra == {"new": 1}  # type: ignore[attr-defined]
    assert not hasattr(codec.decode(Inner, {"name": "n"}), "extra")


def test_unknown_keys_are_no_error_where_there_is_no_room_for_them() -> None:
    assert codec.decode(Slotted, {"x": 1, "new": 1}) == Slotted(1)


def test_strict_decoding_names_unknown_keys_and_the_known_ones() -> None:
    with pytest.raises(DecodeError, match=r"unknown fields: mesage, z; Inner has name, value") as caught:
        codec.strict_decode(Inner, {"mesage": "n", "z": 1}, where="$.action")
    assert caught.value.path == "$.action.mesage"


def test_a_class_that_cannot_be_checked_is_a_configuration_error() -> None:
    @dataclass
    class Odd:
        x: Color = Color.ONE  # text and numbers mixed

    with pytest.raises(ConfigurationError, match="Odd cannot be decoded"):
        codec.decode(Odd, {})


def test_a_check_of_the_class_itself_is_a_decode_error() -> None:
    @dataclass
    class Positive:
        x: int

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x must not be negative")

    with pytest.raises(DecodeError, match="must not be negative"):
        codec.decode(Positive, {"x": -1})


def test_a_model_checks_itself() -> None:
    class Checked(Model):
        @classmethod
        def model_validate(cls, value: Any) -> Checked:
            if "x" not in value:
                raise ValueError("x: field required")
            return cls(**value)

    assert codec.decode(Checked, {"x": 1, "new": 2}).values == {"x": 1, "new": 2}
    with pytest.raises(DecodeError, match="field required"):
        codec.decode(Checked, {})


@dataclass
class Frames:
    screen: list[int] = field(default_factory=list)
    ram: np.ndarray | None = None
    named: dict[str, list[float]] = field(default_factory=dict)
    inner: Frames | None = None
    odd: Broken = field(default_factory=Broken)


def test_an_array_where_the_class_says_list_is_the_flat_list_that_json_would_have_brought() -> None:
    array = np.arange(6, dtype="u1").reshape(2, 3)
    message = {"screen": array, "ram": array, "named": {"a": array / 2}, "inner": {"screen": array[0]}}
    seen = codec.decode(Frames, through_msgpack(message))
    assert seen.screen == [0, 1, 2, 3, 4, 5]
    assert seen.named == {"a": [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]}
    assert seen.inner is not None
    assert seen.inner.screen == [0, 1, 2]
    np.testing.assert_array_equal(seen.ram, array)  # type: ignore[arg-type]


def test_an_array_of_the_wrong_kind_is_an_error_with_its_path() -> None:
    with pytest.raises(DecodeError) as caught:
        codec.decode(Frames, {"screen": np.array([0.5])})
    assert caught.value.path == "$.screen[0]"
    with pytest.raises(DecodeError) as caught:
        codec.decode(Everything, {"text": np.zeros(2)})
    assert caught.value.path == "$.text"


@dataclass
class Simple(DataClassJsonMixin):
    name: str
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    maybe: str | None = None


@dataclass
class Nested(DataClassJsonMixin):
    first: Simple
    rest: list[Simple] = field(default_factory=list)
    named: dict[str, Simple] = field(default_factory=dict)
    level: Level = Level.LOW
    side: Side = Side.LEFT


@dataclass
class Containers(DataClassJsonMixin):
    numbers: list[int] = field(default_factory=list)
    grid: list[list[float]] = field(default_factory=list)
    maybe: list[str] | None = None
    counts: dict[int, int] = field(default_factory=dict)
    free: dict[str, Any] = field(default_factory=dict)


simple = st.builds(
    Simple,
    st.text(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none() | st.text(),
)
nested = st.builds(
    Nested,
    simple,
    st.lists(simple, max_size=3),
    st.dictionaries(st.text(), simple, max_size=3),
    st.sampled_from(Level),
    st.sampled_from(Side),
)
containers = st.builds(
    Containers,
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False))),
    st.none() | st.lists(st.text()),
    st.dictionaries(st.integers(-1000, 1000), st.integers(-1000, 1000)),
    st.dictionaries(st.text(), json_values, max_size=3),
)


@SEEDED
@given(simple | nested | containers)
def test_both_decoders_agree_on_valid_data(value: Any) -> None:
    wire = json.loads(json.dumps(value.to_dict(encode_json=True)))
    assert codec.decode(type(value), wire) == type(value).from_dict(wire) == value
    assert codec.decode(type(value), through_msgpack(value)) == value


# --- schemas ----------------------------------------------------------------------------------------------------


def test_a_schema_has_the_class_itself_at_its_top() -> None:
    schema = codec.json_schema(Outer)
    assert schema["type"] == "object"
    assert schema["required"] == ["inner"]
    assert set(schema["properties"]) == {"inner", "many"}
    assert set(schema["$defs"]) == {"Inner"}
    assert "$defs" not in codec.json_schema(Simple)


def test_a_schema_leaves_open_what_it_cannot_say() -> None:
    properties = codec.json_schema(Frames)["properties"]
    assert properties["screen"]["type"] == "array"
    assert {"type": "array"} in properties["ram"]["anyOf"]
    assert properties["odd"] == {"title": "Broken"}


def test_a_model_gives_its_own_schema() -> None:
    class Own:
        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            return {"title": "own"}

    assert codec.json_schema(Own) == {"title": "own"}
