"""The real models of the golden files: names, hashes, reference tokenizers and reference weights.

Everything comes from the GGUF file itself through `transformers`, so that the reference and the program under test read the same bytes. One
deviation is deliberate: see `load_tokenizer`.
"""

from __future__ import annotations

import hashlib
import os
import pathlib

# name -> (SHA-256 of the GGUF file, whether BOS comes first)
MODELS: dict[str, tuple[str, bool]] = {
    'smollm2-135m-instruct': ('b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53', False),
    'qwen2.5-coder-0.5b-instruct': ('1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32', False),
    'qwen2.5-coder-1.5b-instruct': ('cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046', False),
    'gemma-3-270m': ('a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818', True),
}

TEXTS = ('prose.txt', 'code.py')
HERE = pathlib.Path(__file__).resolve().parent
DEFAULT_MODELS_DIR = pathlib.Path(os.environ.get('BALLAST_MODELS_DIR', '~/.cache/ballast/models')).expanduser()


def check_hash(path: pathlib.Path, expected: str) -> None:
    """Raises ValueError unless the file has the expected SHA-256."""
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 22):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise ValueError(f'{path}: SHA-256 is {digest.hexdigest()}, expected {expected}')


def load_tokenizer(models_dir: pathlib.Path, name: str):
    """Returns the `transformers` tokenizer of a GGUF file, with control tokens never matched in text.

    SmolLM2's file says `tokenizer.ggml.pre = smollm`: every digit stands alone, then GPT-2's pattern. transformers 5.24 does not know that
    name and uses GPT-2's pattern only, which cuts white space before digits differently ("x  5"). The maker's own tokenizer has the
    digit step, so it is put back here.
    """
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(models_dir, gguf_file=name + '.gguf')
    if name.startswith('smollm2'):
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ])
    return tokenizer


def encode(tokenizer, text: str) -> list[int]:
    """Ids of untrusted text: no BOS or EOS, and the spelling of a control token is ordinary text."""
    return tokenizer(text, add_special_tokens=False, split_special_tokens=True)['input_ids']


def load_sentencepiece(models_dir: pathlib.Path, name: str):
    """Returns Google's SentencePiece over the pieces, scores and types that a GGUF file lists (Gemma's own algorithm)."""
    import gguf
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    fields = gguf.GGUFReader(models_dir / f'{name}.gguf').fields
    tokens, scores, types = (fields['tokenizer.ggml.' + key].contents() for key in ('tokens', 'scores', 'token_type'))
    ids = {key: fields[f'tokenizer.ggml.{key}_token_id'].contents() for key in ('unknown', 'bos', 'eos', 'padding')}
    proto = sentencepiece_model_pb2.ModelProto()
    trainer = proto.trainer_spec
    trainer.model_type, trainer.byte_fallback, trainer.vocab_size = trainer.BPE, True, len(tokens)
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = ids['unknown'], ids['bos'], ids['eos'], ids['padding']
    trainer.unk_piece, trainer.bos_piece, trainer.eos_piece, trainer.pad_piece = (tokens[i] for i in ids.values())
    normalizer = proto.normalizer_spec
    normalizer.name, normalizer.add_dummy_prefix, normalizer.remove_extra_whitespaces, normalizer.escape_whitespaces = 'identity', False, False, True
    for index, token in enumerate(tokens):
        piece = proto.pieces.add()
        # The file spells runs of spaces with real spaces; SentencePiece with U+2581.
        piece.piece, piece.score = token.replace(' ', '\u2581'), scores[index]
        piece.type = piece.UNKNOWN if index == ids['unknown'] else types[index]
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def load_model(models_dir: pathlib.Path, name: str):
    """Returns the fp32 model; transformers dequantises every tensor of the GGUF file."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(models_dir, gguf_file=name + '.gguf', dtype=torch.float32)
    return model.eval()


def golden_tokens(tokenizer, name: str, text: str, count: int) -> list[int]:
    """The first `count` tokens of a text, BOS included where the model wants one."""
    ids = encode(tokenizer, text)
    if MODELS[name][1]:
        ids = [tokenizer.bos_token_id] + ids
    if len(ids) < count:
        raise ValueError(f'{name}: the text has only {len(ids)} tokens, {count} are needed')
    return ids[:count]
