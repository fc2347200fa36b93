#!/usr/bin/env python3
"""Writes quant_<TYPE>.bin beside this file: u32 elements, u32 bytes, file blocks, fp32 values.

The blocks are random bytes with sane scales; the values are what the `gguf` package (pip install
gguf numpy) dequantises them to. Run once; the tests read the committed files.
"""

import pathlib
import struct

import gguf
import numpy as np

# Byte offsets of the half-precision scales within a block.
TYPES = {"F16": [0], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0],
         "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def main():
    rng = np.random.default_rng(20240607)
    here = pathlib.Path(__file__).resolve().parent
    for name, scales in TYPES.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = {1: 64, 32: 8, 256: 3}[elements]
        data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
        if name == "BF16":
            data = np.frombuffer(rng.normal(size=blocks).astype(np.float32).tobytes(),
                                 dtype=np.uint8).reshape(blocks, 4)[:, 2:].copy()
        for offset in scales:
            values = (rng.normal(size=blocks) * 0.05).astype(np.float16)
            values[0] = np.float16(6e-7)  # subnormal
            data[:, offset:offset + 2] = values.view(np.uint8).reshape(blocks, 2)
        floats = gguf.dequantize(data.reshape(1, -1), kind).astype("<f4").reshape(-1)
        assert floats.size == blocks * elements
        (here / f"quant_{name}.bin").write_bytes(
            struct.pack("<II", floats.size, data.size) + data.tobytes() + floats.tobytes())


if __name__ == "__main__":
    main()
