#!/usr/bin/env python3
"""Golden vectors of small seeded models, from transformers' fp32 models of the same weights.

    make_seeded_golden.py --make-model build/tools/make_model --only ARCHITECTURE

Writes seeded/<architecture>-<type>.gold (README.md); without --only, those of every architecture that has some already. The models themselves are made again by the tests from the same recipe.
"""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import golden_file

TYPES = ('F32', 'F16', 'BF16')
POSITIONS = 96  # three times the sliding window of the recipe
TOP = 32
CONTEXT = 512


def reference(directory: pathlib.Path, tokens: np.ndarray) -> np.ndarray:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation='eager').eval()
    with torch.no_grad():
        return model(torch.tensor(tokens[None, :-1].astype(np.int64))).logits[0].double().numpy()


def condense(name: str, sha: bytes, tokens: np.ndarray, logits: np.ndarray) -> golden_file.Golden:
    logprobs = logits - logits.max(axis=1, keepdims=True)
    logprobs -= np.log(np.exp(logprobs).sum(axis=1, keepdims=True))
    ids = np.argsort(-logprobs, axis=1, kind='stable')[:, :TOP]
    top = np.take_along_axis(logprobs, ids, axis=1)
    nll = -logprobs[np.arange(len(logprobs)), tokens[1:]]
    return golden_file.Golden(name, 'seeded', sha, logits.shape[1], tokens, ids, top, nll, 1 - np.exp(top).sum(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--make-model', type=pathlib.Path, required=True)
    parser.add_argument('--only', metavar='ARCHITECTURE', help='a name that make_model knows')
    args = parser.parse_args()
    out = pathlib.Path(__file__).parent / 'seeded'
    out.mkdir(exist_ok=True)
    known = sorted({path.stem.rpartition('-')[0] for path in out.glob('*.gold')})
    for architecture in [args.only] if args.only else known:
        for dtype in TYPES:
            with tempfile.TemporaryDirectory() as temp:
                directory = pathlib.Path(temp) / 'model'
                recipe = ['--arch', architecture, '--type', dtype, '--context', str(CONTEXT)]
                subprocess.run([args.make_model, *recipe, '--format', 'safetensors', '--out', directory], check=True)
                gguf = pathlib.Path(temp) / 'model.gguf'
                subprocess.run([args.make_model, *recipe, '--out', gguf], check=True)
                sha = hashlib.sha256(gguf.read_bytes()).digest()
                tokens = np.random.default_rng(5).integers(0, 512, POSITIONS + 1)
                logits = reference(directory, tokens)
            golden = condense(f'{architecture}-{dtype}', sha, tokens, logits)
            golden.write(out / f'{architecture}-{dtype}.gold')
            print(f'{architecture}-{dtype}: mean top probability {np.exp(golden.top_logprobs[:, 0]).mean():.3f}')


if __name__ == '__main__':
    main()
