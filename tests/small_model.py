"""A cross-encoder of a few nodes, written as ONNX: how often words of the question are in the text.

Source of the numbers: onnx.proto3, fields of ModelProto and what is in it.
"""

from __future__ import annotations

import struct
from pathlib import Path

_FLOAT, _INT64 = 1, 7

#: Characters that the tokenizer knows, each a token at the beginning of a word and within one.
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!"


def write_cross_encoder(
    folder: Path, words: list[str], *, heavy: int = 0, columns: int = 1
) -> None:
    """Write `model.onnx` and `vocab.txt`; each of `words` is a token of its own.

    `heavy` large products of matrices come first, for a model that takes its time; the output has
    so many `columns`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    letters = [*_LETTERS, *(f"##{letter}" for letter in _LETTERS)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    (folder / "model.onnx").write_bytes(_encode_model(heavy, columns))


def _encode_model(heavy: int, columns: int) -> bytes:
    nodes = [
        _node("Unsqueeze", "input_ids two", "down"),
        _node("Unsqueeze", "input_ids one", "across"),
        _node("Equal", "down across", "equal"),
        _node("Cast", "equal", "same", to=_FLOAT),
        _node("Cast", "token_type_ids", "text", to=_FLOAT),
        _node("Cast", "attention_mask", "any", to=_FLOAT),
        _node("Sub", "any text", "question"),
        _node("Unsqueeze", "question two", "asked"),
        _node("Unsqueeze", "text one", "told"),
        _node("Mul", "asked told", "pairs"),
        _node("Mul", "pairs same", "hits"),
        _node("ReduceSum", "hits both", "sum", keepdims=0),
        _node("ReduceMax", "any", "unit", keepdims=0),
        _node("Mul", "unit share", "cell"),
        _node("Expand", "cell square", "m0"),
        *(_node("MatMul", f"m{n} m{n}", f"m{n + 1}") for n in range(heavy)),
        _node("ReduceMax", f"m{heavy}", "least", keepdims=0),
        _node("Add", "sum least", "scores"),
        _node("Unsqueeze", "scores one", "column"),
        _node("Concat", " ".join(["column"] * columns), "logits", axis=1),
    ]
    size = 600
    numbers = {"one": [1], "two": [2], "both": [1, 2], "square": [size, size]}
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"small")
    graph += b"".join(_field(5, _integers(name, each)) for name, each in numbers.items())
    graph += _field(
        5, _field(2, _FLOAT) + _field(9, struct.pack("<f", 1 / size)) + _name(8, "share")
    )
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        graph += _field(11, _value(name, _INT64))
    graph += _field(12, _value("logits", _FLOAT))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 13))


def _node(kind: str, inputs: str, output: str, **attributes: int) -> bytes:
    given = b"".join(_name(1, each) for each in inputs.split())
    named = b"".join(
        _field(5, _name(1, name) + _field(3, number) + _field(20, 2))
        for name, number in attributes.items()
    )
    return given + _name(2, output) + _name(4, kind) + named


def _integers(name: str, numbers: list[int]) -> bytes:
    data = b"".join(struct.pack("<q", number) for number in numbers)
    return _field(1, len(numbers)) + _field(2, _INT64) + _name(8, name) + _field(9, data)


def _value(name: str, kind: int) -> bytes:
    shape = b"".join(_field(1, _name(2, each)) for each in ("rows", f"of {name}"))
    return _name(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _name(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, value: int | bytes) -> bytes:
    """Return a field as protobuf writes it: a number, or a length and as many bytes."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
