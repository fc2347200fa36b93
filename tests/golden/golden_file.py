"""Reads and writes the `.gold` files; README.md describes them byte by byte."""

from __future__ import annotations

import dataclasses
import pathlib
import struct

import numpy as np

MAGIC = b'BLGOLD01'


@dataclasses.dataclass
class Golden:
    """Reference results for one model and one text."""

    model: str
    text: str
    sha256: bytes  # [32], of the GGUF file
    vocab: int
    tokens: np.ndarray  # u32 [n + 1]; the last one is a target only
    top_ids: np.ndarray  # u32 [n, k], by falling log-probability, then rising id
    top_logprobs: np.ndarray  # f32 [n, k]
    nll: np.ndarray  # f32 [n], of tokens[i + 1] after tokens[0..i]
    tail: np.ndarray  # f32 [n], probability outside the top k

    def write(self, path: pathlib.Path) -> None:
        n, k = self.top_ids.shape
        with open(path, 'wb') as file:
            file.write(MAGIC + self.sha256)
            file.write(_padded(self.model) + _padded(self.text))
            file.write(struct.pack('<III', self.vocab, n, k))
            for array, dtype in ((self.tokens, '<u4'), (self.top_ids, '<u4'), (self.top_logprobs, '<f4'), (self.nll, '<f4'), (self.tail, '<f4')):
                file.write(np.ascontiguousarray(array, dtype=dtype).tobytes())

    @classmethod
    def read(cls, path: pathlib.Path) -> 'Golden':
        data = pathlib.Path(path).read_bytes()
        if data[:8] != MAGIC:
            raise ValueError(f'{path}: not a golden file')
        sha, offset = data[8:40], 40
        names = []
        for _ in range(2):
            (length,) = struct.unpack_from('<I', data, offset)
            names.append(data[offset + 4 : offset + 4 + length].decode())
            offset += 4 + length + (-length) % 4
        vocab, n, k = struct.unpack_from('<III', data, offset)
        offset += 12

        def take(dtype: str, *shape: int) -> np.ndarray:
            nonlocal offset
            count = int(np.prod(shape))
            array = np.frombuffer(data, dtype, count, offset).reshape(shape)
            offset += 4 * count
            return array

        golden = cls(names[0], names[1], sha, vocab, take('<u4', n + 1), take('<u4', n, k), take('<f4', n, k), take('<f4', n), take('<f4', n))
        if offset != len(data):
            raise ValueError(f'{path}: {len(data)} bytes, expected {offset}')
        return golden


def _padded(name: str) -> bytes:
    raw = name.encode()
    return struct.pack('<I', len(raw)) + raw + b'\0' * (-len(raw) % 4)
