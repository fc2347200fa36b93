#!/usr/bin/env python3
"""Writes `embeddings/<model>.json`: pooled last hidden states of a few texts, as `transformers` computes them.

The reference is `transformers` in fp32 on weights that it dequantises from the GGUF file: the base model's last hidden state (after the final
norm), its mean over the tokens or its last row, scaled to length 1. Needs torch, transformers, accelerate and gguf (README.md).

    make_embedding_golden.py [--models-dir DIR] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import pathlib

import torch

import golden_models

DEFAULT = ['smollm2-135m-instruct']
TEXTS = (
    'The cat sleeps on the warm stone wall.',
    'def add(a, b):\n    return a + b\n',
)
LONG_TOKENS = 300


def unit(row: torch.Tensor) -> list[float]:
    """Scales to length 1; six digits are far below what the rounding of activations moves."""
    row = row.double()
    return [round(value, 7) for value in (row / row.norm()).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models-dir', type=pathlib.Path, default=golden_models.DEFAULT_MODELS_DIR)
    parser.add_argument('--only', nargs='*', default=DEFAULT)
    args = parser.parse_args()
    from transformers import AutoModel
    out_dir = golden_models.HERE / 'embeddings'
    out_dir.mkdir(exist_ok=True)
    for name in args.only:
        golden_models.check_hash(args.models_dir / f'{name}.gguf', golden_models.MODELS[name][0])
        tokenizer = golden_models.load_tokenizer(args.models_dir, name)
        model = AutoModel.from_pretrained(args.models_dir, gguf_file=name + '.gguf', dtype=torch.float32)
        model.eval()
        prose = (golden_models.HERE / 'texts' / 'prose.txt').read_text(encoding='utf-8')
        inputs = [golden_models.encode(tokenizer, text) for text in TEXTS]
        inputs.append(golden_models.encode(tokenizer, prose)[:LONG_TOKENS])
        cases = []
        for ids in inputs:
            with torch.no_grad():
                hidden = model(torch.tensor([ids]), use_cache=False).last_hidden_state[0]
            cases.append({'tokens': ids, 'mean': unit(hidden.double().mean(dim=0)), 'last': unit(hidden[-1])})
        (out_dir / f'{name}.json').write_text(json.dumps({'model': name, 'cases': cases}, separators=(',', ':')) + '\n')
        print(name, [len(case['tokens']) for case in cases])


if __name__ == '__main__':
    main()
