#!/usr/bin/env python3
"""Writes `logits/<model>-<text>.gold`: what each real model says about the first 512 tokens of each text.

The reference is `transformers` in fp32 on weights that it dequantises from the same GGUF file. Needs torch, transformers, accelerate and gguf
(README.md names the versions); the tests that read the result need none of them.

    make_golden.py [--models-dir DIR] [--only NAME ...] [--full-logits-dir DIR]

`--full-logits-dir` also saves all logits as `<model>-<text>.npy` (fp32 [512, vocab], 0.1 to 0.5 GB each) for `compare_logits.py`.
"""

from __future__ import annotations

import argparse
import math
import pathlib

import numpy as np
import torch

import golden_file
import golden_models

TOKENS = 512
TOP = 64


def make(model, tokenizer, name: str, text: str, full_dir: pathlib.Path | None) -> golden_file.Golden:
    """Runs one text in one forward pass and condenses the logits."""
    source = (golden_models.HERE / 'texts' / text).read_text(encoding='utf-8')
    ids = golden_models.golden_tokens(tokenizer, name, source, TOKENS + 1)
    with torch.no_grad():
        logits = model(torch.tensor([ids[:TOKENS]]), use_cache=False).logits[0].float()
    if full_dir is not None:
        np.save(full_dir / f'{name}-{pathlib.Path(text).stem}.npy', logits.numpy())
    vocab = logits.shape[1]
    top_ids = np.empty((TOKENS, TOP), np.uint32)
    top_logprobs = np.empty((TOKENS, TOP), np.float32)
    nll = np.empty(TOKENS, np.float32)
    tail = np.empty(TOKENS, np.float32)
    for row in range(TOKENS):
        logprobs = torch.log_softmax(logits[row].double(), dim=-1).numpy()
        order = np.lexsort((np.arange(vocab), -logits[row].numpy()))
        top_ids[row] = order[:TOP]
        top_logprobs[row] = logprobs[order[:TOP]]
        nll[row] = -logprobs[ids[row + 1]]
        tail[row] = np.exp(logprobs[order[TOP:]]).sum()
    sha = bytes.fromhex(golden_models.MODELS[name][0])
    return golden_file.Golden(name, text, sha, vocab, np.array(ids, np.uint32), top_ids, top_logprobs, nll, tail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models-dir', type=pathlib.Path, default=golden_models.DEFAULT_MODELS_DIR)
    parser.add_argument('--only', nargs='*', default=list(golden_models.MODELS))
    parser.add_argument('--full-logits-dir', type=pathlib.Path)
    args = parser.parse_args()
    out_dir = golden_models.HERE / 'logits'
    out_dir.mkdir(exist_ok=True)
    for name in args.only:
        golden_models.check_hash(args.models_dir / f'{name}.gguf', golden_models.MODELS[name][0])
        tokenizer = golden_models.load_tokenizer(args.models_dir, name)
        model = golden_models.load_model(args.models_dir, name)
        for text in golden_models.TEXTS:
            golden = make(model, tokenizer, name, text, args.full_logits_dir)
            golden.write(out_dir / f'{name}-{pathlib.Path(text).stem}.gold')
            print(f'{name} {text}: perplexity {math.exp(golden.nll[256:511].mean()):.4f} over 256..510, {math.exp(golden.nll[:511].mean()):.4f} over all')
        del model


if __name__ == '__main__':
    main()
