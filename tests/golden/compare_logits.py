#!/usr/bin/env python3
"""Compares saved logits with a reference: mean KL, p99 KL, top-1 agreement, perplexity.

    compare_logits.py LOGITS.npy REFERENCE [--gold F.gold] [--first 256] [--last 510] [--json]

LOGITS.npy is float32 [tokens, vocab], as `ballast eval --save-logits` writes it. REFERENCE is either such a file (exact KL; `--gold` then names the
tokens for the perplexities) or a `.gold` file. From a `.gold` file KL is computed over its top 64 tokens and one bucket for all others, which
is a lower bound: a few percent low on predictable text, about a quarter on prose. KL is KL(reference || logits) in nats; positions are rows, both ends included.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib

import numpy as np

import golden_file


def log_softmax(row: np.ndarray) -> np.ndarray:
    row = row.astype(np.float64)
    row = row - row.max()
    return row - math.log(np.exp(row).sum())


def kl_full(reference: np.ndarray, logprobs: np.ndarray) -> float:
    return float((np.exp(reference) * (reference - logprobs)).sum())


def kl_top(golden: golden_file.Golden, row: int, logprobs: np.ndarray) -> float:
    """KL over the stored tokens and one bucket for the rest."""
    ref = golden.top_logprobs[row].astype(np.float64)
    ids = golden.top_ids[row].astype(np.int64)
    rest = np.ones(len(logprobs), bool)
    rest[ids] = False
    tail = float(golden.tail[row])
    other = float(np.exp(logprobs[rest]).sum())
    result = float((np.exp(ref) * (ref - logprobs[ids])).sum())
    return result + (tail * math.log(tail / other) if tail > 0 and other > 0 else 0.0)


def compare(logits: np.ndarray, reference: np.ndarray | None, golden: golden_file.Golden | None, first: int, last: int) -> dict:
    """Returns the figures over rows first..last."""
    kls, same, nll, ref_nll = [], 0, [], []
    for row in range(first, last + 1):
        logprobs = log_softmax(logits[row])
        if reference is not None:
            ref = log_softmax(reference[row])
            kls.append(kl_full(ref, logprobs))
            best = int(reference[row].argmax())
        else:
            kls.append(kl_top(golden, row, logprobs))
            best = int(golden.top_ids[row][0])
        same += int(logits[row].argmax()) == best
        if golden is not None:
            target = int(golden.tokens[row + 1])
            nll.append(-logprobs[target])
            ref_nll.append(-ref[target] if reference is not None else float(golden.nll[row]))
    result = {
        'positions': len(kls),
        'kl_mean': float(np.mean(kls)),
        'kl_p99': float(np.quantile(kls, 0.99)),
        'kl_max': float(np.max(kls)),
        'top1': same / len(kls),
    }
    if nll:
        result['perplexity'] = math.exp(np.mean(nll))
        result['perplexity_reference'] = math.exp(np.mean(ref_nll))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('logits', type=pathlib.Path)
    parser.add_argument('reference', type=pathlib.Path)
    parser.add_argument('--gold', type=pathlib.Path)
    parser.add_argument('--first', type=int, default=256)
    parser.add_argument('--last', type=int, default=510)
    parser.add_argument('--json', action='store_true')
    args = parser.parse_args()
    logits = np.load(args.logits, mmap_mode='r')
    reference, golden = None, None
    if args.reference.suffix == '.npy':
        reference = np.load(args.reference, mmap_mode='r')
        if args.gold:
            golden = golden_file.Golden.read(args.gold)
    else:
        golden = golden_file.Golden.read(args.reference)
    vocab = reference.shape[1] if reference is not None else golden.vocab
    if logits.ndim != 2 or logits.shape[1] != vocab or logits.shape[0] <= args.last:
        raise SystemExit(f'{args.logits}: shape {logits.shape}, expected at least [{args.last + 1}, {vocab}]')
    result = compare(logits, reference, golden, args.first, args.last)
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f'{key:22} {value:.6g}')


if __name__ == '__main__':
    main()
