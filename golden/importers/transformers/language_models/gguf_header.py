"""Header of a GGUF file: metadata and the places of its tensors, each checked against the file's end.

The package `gguf` has a reader, too. It takes 4 s where this one takes 0.1 s, and follows lengths beyond the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....errors import UserError

_MAGIC, _VERSIONS, _ALIGNMENT = b"GGUF", (2, 3), 32
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of metadata by number, as `struct` writes them; strings and arrays beside them."""
_DIMENSIONS = 4


@dataclass(frozen=True)
class TensorPlace:
    """Place and type of a tensor.

    Parameters
    ----------
    shape : tuple of int
        Rows first, as in PyTorch.
    kind : int
        Number of its type of blocks.
    offset : int
        Of its first byte in the file's data.
    """

    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufHeader:
    """Metadata, places of tensors, and the bytes of a file.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    metadata : dict
        By key; arrays are lists.
    places : dict of str to TensorPlace
    data : array of uint8
        The file.
    begin : int
        First byte of the tensors.

    Raises
    ------
    UserError
        If it is no GGUF file, of another version, or cut short.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UserError(f"{path} is no file" if path.exists() else f"{path} is missing")
        if not path.stat().st_size:
            raise UserError(f"{path} is empty")
        self._path, self._at = path, 0
        self.data: NDArray[np.uint8] = np.memmap(path, np.uint8, "r")
        if (magic := self._bytes(4)) != _MAGIC:
            raise UserError(f"{path} begins with {magic!r}, not with {_MAGIC!r}: it is no GGUF file")
        if (version := self._scalar("I")) not in _VERSIONS:
            raise UserError(f"{path} is GGUF of version {version:#x}; read are 2 and 3, with their low byte first")
        tensors, entries = self._scalar("Q"), self._scalar("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self._string()
            if key in self.metadata:
                raise UserError(f"{path} has metadata {key} twice")
            self.metadata[key] = self._value(self._scalar("I"), key)
        self.places: dict[str, TensorPlace] = {}
        for _ in range(tensors):
            name = self._string()
            if name in self.places:
                raise UserError(f"{path} has a tensor {name} twice")
            self.places[name] = self._place(name)
        alignment = self.metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise UserError(f"{path} has general.alignment = {alignment!r}, which is no power of two")
        self.begin = -(-self._at // alignment) * alignment

    def _bytes(self, count: int) -> bytes:
        """Take so many bytes."""
        if self._at + count > len(self.data):
            raise UserError(f"{self._path} is cut short: its header goes on behind byte {len(self.data)}")
        taken = self.data[self._at : self._at + count].tobytes()
        self._at += count
        return taken

    def _scalar(self, kind: str) -> Any:
        return struct.unpack(f"<{kind}", self._bytes(struct.calcsize(kind)))[0]

    def _string(self) -> str:
        try:
            return self._bytes(self._scalar("Q")).decode()
        except UnicodeDecodeError:
            raise UserError(f"{self._path} has a name or text at byte {self._at} that is not UTF-8") from None

    def _value(self, kind: int, key: str) -> Any:
        """Take a value of the metadata; an array has values of one type, which is no array itself."""
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind != _ARRAY:
            raise UserError(f"{self._path} has metadata {key} of type {kind}, which is not one of GGUF's")
        inner, count = self._scalar("I"), self._scalar("Q")
        if inner in _SCALARS:
            code = np.dtype(_SCALARS[inner]).newbyteorder("<")
            return np.frombuffer(self._bytes(count * code.itemsize), code).tolist()
        if inner != _STRING:
            raise UserError(f"{self._path} has metadata {key}, an array of type {inner}: read are scalars and strings")
        return [self._string() for _ in range(count)]

    def _place(self, name: str) -> TensorPlace:
        dimensions = self._scalar("I")
        if not 1 <= dimensions <= _DIMENSIONS:
            raise UserError(f"{self._path}: tensor {name} has {dimensions} dimensions, not 1 to {_DIMENSIONS}")
        shape = tuple(self._scalar("Q") for _ in range(dimensions))[::-1]
        if not all(shape):
            raise UserError(f"{self._path}: tensor {name} is of {shape}, and has no values")
        return TensorPlace(shape, self._scalar("I"), self._scalar("Q"))

    def blocks(self, name: str, values: int, size: int) -> NDArray[np.uint8]:
        """Bytes of a tensor: (rows, bytes of a row).

        Parameters
        ----------
        name : str
        values, size : int
            Values of a block of its type, and bytes of it.

        Raises
        ------
        UserError
            If rows are not whole blocks, or the file ends before.
        """
        place = self.places[name]
        inputs, rows = place.shape[-1], prod(place.shape[:-1])
        if inputs % values or not inputs:
            raise UserError(f"{self._path}: tensor {name} has rows of {inputs} values, not of blocks of {values}")
        row = inputs // values * size
        first = self.begin + place.offset
        if first + rows * row > len(self.data):
            raise UserError(
                f"{self._path} is cut short: tensor {name} ends at byte {first + rows * row} of {len(self.data)}"
            )
        return self.data[first : first + rows * row].reshape(rows, row)
