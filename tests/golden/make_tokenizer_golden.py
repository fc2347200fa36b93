#!/usr/bin/env python3
"""Writes `tokenizers/lines.jsonl`: awkward strings and their token ids for the three tokenizers of the real models.

    make_tokenizer_golden.py [--models-dir DIR]

Strings are drawn from a seeded generator, so that a rerun gives the same file. Nothing is downloaded. README.md says how the ids are obtained and
where other programs are known to differ.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import unicodedata

import golden_models

SEED = 20261130
# Both Qwen files hold the same tokenizer; main() checks that.
TOKENIZERS = {'smollm2': 'smollm2-135m-instruct', 'qwen': 'qwen2.5-coder-0.5b-instruct', 'gemma': 'gemma-3-270m'}

SUBJECTS = ['The keeper', 'A small grey cat', 'Nobody in the village', 'Her older brother', 'The second engine', 'Professor Okonkwo-Smith', 'My neighbour', 'The committee']
VERBS = ['watched', 'forgot', 'measured', 'repaired', 'could not explain', 'quietly replaced', 'had never seen', 'was arguing about']
OBJECTS = ['the broken barometer', 'a letter from Gdańsk', 'seven ripe plums', 'the café’s opening hours', 'an “unsinkable” boat', 'the price of tea (again)', 'a state-of-the-art turbine',
           'the naïve hypothesis']
ENDS = ['.', '!', '?', '...', '…', ' — or so they said.', '; then it rained.', ', didn\'t they?', '."', ':\n']
CONTRACTIONS = ["I'm", "you're", "she'll", "he'd", "we've", "it's", "don't", "I'M", "YOU'RE", "SHE'LL", "He'D", "We'Ve", "IT'S", "o'clock", "rock'n'roll", "'tis", "y'all'd've", "it’s", "don’t",
                "'s", "'re", "''s", "x's2", "ſ's", "'ſ", "'ll'll", "dogs'", "'T", "'Ll a", "a'm1"]
SCRIPTS = {
    'chinese': ['今天天气很好，我们去公园散步吧。', '机器学习模型需要大量的数据。', '他说：“不要急！”', '繁體中文測試，價格是１２３元。', '龘靐齉齾爩', '你好world混合text测试123号'],
    'japanese': ['吾輩は猫である。名前はまだ無い。', 'コンピュータのメモリは１６ギガバイトです。', 'カタカナとひらがなと漢字', 'ｶﾀｶﾅ半角', 'がぎぐげご', '々〆ヶ〜'],
    'korean': ['오늘은 날씨가 정말 좋네요.', '한국어 형태소 분석', '각각', 'ㄱㄴㄷㅏㅑ', '서울특별시 2026년 11월'],
    'arabic': ['مرحبا بالعالم، كيف حالك اليوم؟', 'اللُّغَةُ العَرَبِيَّةُ جَمِيلَةٌ', 'السعر ١٢٣٫٤٥ ريال', 'لا إله', 'ﷺ', 'سلام دنیا، حالت چطوره؟'],
    'hebrew': ['שלום עולם, מה שלומך?', 'בְּרֵאשִׁית בָּרָא אֱלֹהִים', 'ק״מ 12'],
    'thai': ['สวัสดีครับ วันนี้อากาศดีมาก', 'ภาษาไทยไม่มีช่องว่างระหว่างคำ', 'น้ำ ๑๒๓', 'กรุงเทพมหานคร'],
    'devanagari': ['नमस्ते दुनिया, आप कैसे हैं?', 'हिन्दी में संयुक्ताक्षर: क्षत्रिय, ज्ञान', 'मूल्य १२३४ रुपये', 'दिलाई'],
    'other': ['Привет, мир! Ёлка и съешь ещё этих мягких французских булок', 'Γειά σου Κόσμε — ἄνθρωπος', 'Xin chào thế giới, tiếng Việt có dấu', 'ქართული ენა', 'Հայերեն լեզու', 'বাংলা ভাষা',
              'தமிழ் மொழி', 'తెలుగు', 'ಕನ್ನಡ', 'മലയാളം', 'ខ្មែរ', 'မြန်မာဘာသာ', 'አማርኛ', 'བོད་ཡིག', 'ᐃᓄᒃᑎᑐᑦ', 'ᚠᚢᚦᚨᚱᚲ', 'Türkçe İstanbul ığdır ISPARTA', 'ǅ ǆ Ǆ ǈ', 'ﬁ ﬂ ﬃ', 'Straße STRASSE ẞ'],
    'math': ['∀x∈ℝ: ⌈x⌉ = −⌊−x⌋', 'α ∧ ¬β → γ', '∑_{i=0}^{n} xᵢ² ≤ ∞', '½ ⅓ ² ³ ⁴ ₁ ₂', 'Ⅳ ⅷ ① ⑳ ㊿', '𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𝒳', '→ ⇒ ↦ ⟶', '√2 ≈ 1.414'],
}
EMOJI = ['😀', '🎉', '👍🏽', '👩‍💻', '👨‍👩‍👧‍👦', '🏳️‍🌈', '🇩🇪', '🇯🇵🇫🇷', '❤️', '❤', '☕', '1️⃣', '#️⃣', '🤷🏾‍♀️', '🧑‍🚀', '🫠', '⚠️', '™️', '🏴󠁧󠁢󠁳󠁣󠁴󠁿', '✔']
COMBINING = ['e\u0301', 'é', 'a\u0308\u0301', 'n\u0303', 'Å', 'A\u030a', '\u212b', 'o\u0302\u0323', 'ộ', 'Z\u0351\u036b\u0343\u034c\u0310', '\u0301', ' \u0301', 'q\u0307\u0323', 'q\u0323\u0307', '\u1100\u1161\u11a8', '각',
             'ก\u0e49\u0e33', 'क\u094d\u0937', '\u0f71\u0f72', 'i\u0307', '\u00b5', '\u03bc', '\u2126', '\u1e9b\u0323', '\ufb1d', 'ё', 'е\u0308', '\uf900', '\ufa0e', '\U0002f800']
SPACES = [' ', '  ', '   ', '\t', '\t\t', '\n', '\n\n', '\r\n', '\r', '\r\r\n', '\x0b', '\x0c', '\x85', '\xa0', '\u1680', '\u180e', '\u2000', '\u2003', '\u2009', '\u200a', '\u200b', '\u2028', '\u2029', '\u202f', '\u205f', '\u2060',
          '\u3000', '\ufeff', ' \n', '\n ', ' \t ', '\x1c', '\x1f']
SPECIALS = ['<|im_start|>', '<|im_end|>', '<|endoftext|>', '<repo_name>', '<file_sep>', '<filename>', '<jupyter_code>', '<empty_output>', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|object_ref_start|>', '<|vision_pad|>',
            '<tool_call>', '</tool_call>', '<eos>', '<bos>', '<pad>', '<unk>', '<mask>', '<start_of_turn>', '<end_of_turn>', '<start_of_image>', '[multimodal]', '<unused0>', '<unused99>', '<unused6241>', '<0x0A>', '<0xFF>',
            '<table>', '</td>', '<h1>', '</h6>', '<blockquote>', '[PAD151665]', '<s>', '</s>', '[INST]', '<|eot_id|>', '<|im_start', 'im_end|>', '<|im_end|', '<<|im_end|>>', '<|IM_START|>', '< |im_start|>', '<|im_\u200bstart|>',
            '▁', '▁▁', '▁▁▁the', 'Ġ', 'Ċ', 'Ġthe', 'ĠĠ', '##ing', '</w>']
CODE = [
    'for (size_t i = 0; i < n; ++i) {', '        return x->y[i] ? &z : nullptr;', '\t\tif err != nil {\n\t\t\treturn fmt.Errorf("open %s: %w", path, err)\n\t\t}', 'def f(self, *args, **kwargs) -> dict[str, list[int]]:',
    '    self._items = [x for x in xs if x % 2 == 0]', 'SELECT COUNT(*) FROM "users" WHERE id >= 100 AND name LIKE \'%a_b%\';', 'const λ = (x) => x ?? {};', '#include <vector>\n#define MAX(a,b) ((a)>(b)?(a):(b))',
    'let mut v: Vec<Box<dyn Fn(i32) -> i32 + \'static>> = vec![];', '<div class="row" id=\'main\'>&nbsp;&lt;b&gt;</div>', 'printf("%08.3f\\n\\t%s", 3.14e-10, "a\\\\b");', '{"key": [1, 2.5, -3e8, null, true], "s": "\\u00e9\\n"}',
    'git commit -m "fix: don\'t crash" && git push --force-with-lease', 'https://example.org/a/b?x=1&y=%20z#frag', 'x = 0xDEADBEEF | 0b1010_0101 | 0o755', '// TODO(ana): remove this!!! ---------------', '/* ****** */', '"""Docstring."""',
    "f'{x!r:>{width}}'", '@decorator\nclass A(B[T], metaclass=M):\n    pass', 'int main(){std::cout<<"hi"<<std::endl;return 0;}', 'a<b>c<<d>>e<=f>=g<=>h', '!!!???...', '$HOME/.config/*.{json,yaml}', '^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$',
    'camelCaseName snake_case_name SCREAMING_CASE kebab-case-name', 'if(x==1){y+=2;}else{z--;}', '\\begin{equation} \\frac{a}{b} \\end{equation}', 'SGVsbG8sIFdvcmxkIQ==', '550e8400-e29b-41d4-a716-446655440000', 'C:\\Users\\ana\\Desktop\\file (1).txt',
    '    ' * 3 + 'pass', '  - item: value\n  - item2: "value"\n', 'Ctrl+Shift+P', 'fn main() {\r\n    println!("{}", 1);\r\n}\r\n',
]


def sentence(rng: random.Random) -> str:
    return f'{rng.choice(SUBJECTS)} {rng.choice(VERBS)} {rng.choice(OBJECTS)}{rng.choice(ENDS)}'


def number(rng: random.Random) -> str:
    n = rng.randrange(10 ** rng.randrange(1, 19))
    return rng.choice([
        f'{n}', f'{n:,}', f'-{n}', f'{n / 1000:.3f}', f'{n:x}', f'{n:e}', f'${n % 10000}.{n % 100:02d}', f'{n % 100}%', f'{n % 24}:{n % 60:02d}', f'20{n % 100:02d}-{n % 12 + 1:02d}-{n % 28 + 1:02d}', f'v{n % 10}.{n % 20}.{n % 7}',
        f'x{n}y', f'  {n}', f'{n} {n}', f'{n}\n{n}', f'№{n % 999}', f'+{n % 100} ({n % 1000}) {n % 10000}', f'{n % 1000}²', f'1{n % 10}th',
    ])


def assigned_characters() -> list[str]:
    """Characters assigned in the Unicode version of this Python (3.11: Unicode 14); no surrogates, no private use."""
    return [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ('Cn', 'Cs', 'Co')]


def lines() -> list[tuple[str, str]]:
    """Returns (category, text) pairs without repetition."""
    rng = random.Random(SEED)
    out: list[tuple[str, str]] = [('empty', '')]
    everything = [s for group in SCRIPTS.values() for s in group] + EMOJI + COMBINING + CONTRACTIONS + CODE
    for name in golden_models.TEXTS:
        source = (golden_models.HERE / 'texts' / name).read_text(encoding='utf-8')
        out += [('text', line) for line in source.split('\n') if line.strip()]
        out += [('text', source[i : i + 400]) for i in range(0, len(source), 391)]
    out += [('prose', ' '.join(sentence(rng) for _ in range(rng.randrange(1, 4)))) for _ in range(220)]
    out += [('code', line) for line in CODE]
    out += [('code', rng.choice(['\n', '\n\n', '\n    ', ';', ' ']).join(rng.sample(CODE, 2))) for _ in range(110)]
    out += [('contraction', c) for c in CONTRACTIONS]
    out += [('contraction', rng.choice([' ', '', '\n', '-']).join(rng.choices(CONTRACTIONS, k=rng.randrange(2, 7)))) for _ in range(90)]
    for name, group in SCRIPTS.items():
        out += [(name, s) for s in group]
        out += [(name, rng.choice([' ', '', '\n', ', ', '　']).join(rng.choices(group, k=rng.randrange(2, 4)))) for _ in range(22)]
    out += [('emoji', e) for e in EMOJI]
    out += [('emoji', rng.choice([' ', '', 'a', '\n']).join(rng.choices(EMOJI, k=rng.randrange(2, 6)))) for _ in range(110)]
    out += [('combining', c) for c in COMBINING]
    out += [('combining', rng.choice([' ', '', 'x', ' the ']).join(rng.choices(COMBINING, k=rng.randrange(2, 6)))) for _ in range(110)]
    out += [('space', s) for s in SPACES]
    out += [('space', ''.join(rng.choices(SPACES, k=rng.randrange(1, 6))) + rng.choice(['x', '5', '!', 'é', '']) + ''.join(rng.choices(SPACES, k=rng.randrange(0, 4)))) for _ in range(120)]
    out += [('space', rng.choice(['a', '7', '.', '中']) + ' ' * n + rng.choice(['b', '7', '(', '中', ''])) for n in list(range(1, 36)) + [40, 62, 63, 64, 100]]
    out += [('space', 'x' + c * n + rng.choice(['y', '8', '{', ''])) for c in '\n\t' for n in list(range(1, 8)) + [15, 16, 17, 30, 31, 32, 33, 40, 63]]
    out += [('control', 'a' + chr(c) + 'b' + chr(c) + chr(c)) for c in list(range(0x20)) + list(range(0x7f, 0xa0))]
    out += [('control', ''.join(chr(rng.choice(list(range(0x20)) + [0x7f, 0xad, 0x200c, 0x200d, 0x200e, 0x202e, 0x2066, 0xfffd, 0xfffe, 0xffff, 0x10ffff])) for _ in range(8))) for _ in range(60)]
    out += [('number', number(rng)) for _ in range(240)]
    out += [('repeat', c * n) for c in ['a', ' a', 'ab', 'A', '0', '=', '-', '!', '.', '*', 'é', '中', '😀', 'ha', 'the ', '\\', '"', "'s"] for n in (2, 3, 5, 17, 64)]
    out += [('special', s) for s in SPECIALS]
    out += [('special', rng.choice(['', ' ', 'x', '\n', 'user\n']).join(rng.choices(SPECIALS, k=rng.randrange(2, 5)))) for _ in range(130)]
    out += [('bytes', rng.randbytes(rng.randrange(1, 40)).decode('utf-8', errors='replace')) for _ in range(90)]
    out += [('bytes', ''.join(rng.choices(everything, k=3)).encode()[rng.randrange(1, 4) : -rng.randrange(1, 4)].decode('utf-8', errors='replace')) for _ in range(90)]
    characters = assigned_characters()
    ascii_part = [chr(c) for c in range(0x20, 0x7f)]
    latin_part = [chr(c) for c in range(0x20, 0x250) if unicodedata.category(chr(c)) != 'Cn']
    for pool, count in ((characters, 130), (ascii_part, 160), (latin_part, 90)):
        out += [('random', ''.join(rng.choices(pool, k=rng.randrange(1, 30)))) for _ in range(count)]
    out += [('mixed', ''.join(rng.choice([s, s[: len(s) // 2], ' ' + s]) for s in rng.choices(everything + SPECIALS + SPACES, k=rng.randrange(2, 6)))) for _ in range(160)]
    seen: set[str] = set()
    return [pair for pair in out if not (pair[1] in seen or seen.add(pair[1]))]


def control_ids(tokenizer) -> set[int]:
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--models-dir', type=pathlib.Path, default=golden_models.DEFAULT_MODELS_DIR)
    args = parser.parse_args()
    tokenizers = {}
    for short, name in TOKENIZERS.items():
        golden_models.check_hash(args.models_dir / f'{name}.gguf', golden_models.MODELS[name][0])
        tokenizers[short] = golden_models.load_tokenizer(args.models_dir, name)
    other_qwen = golden_models.load_tokenizer(args.models_dir, 'qwen2.5-coder-1.5b-instruct')
    gemma_pieces = golden_models.load_sentencepiece(args.models_dir, TOKENIZERS['gemma'])
    forbidden = {short: control_ids(tokenizer) for short, tokenizer in tokenizers.items()}
    rows = []
    for category, text in lines():
        row: dict[str, object] = {'category': category, 'text': text}
        for short, tokenizer in tokenizers.items():
            ids = golden_models.encode(tokenizer, text)
            if forbidden[short] & set(ids):
                raise ValueError(f'{short}: {text!r} gave a control token: {ids}')
            row[short] = ids
        if golden_models.encode(other_qwen, text) != row['qwen']:
            raise ValueError(f'the two Qwen tokenizers differ on {text!r}')
        pieces = gemma_pieces.encode(text)
        if pieces != row['gemma']:
            row['gemma'], row['gemma_hf'] = pieces, row['gemma']
        nfc = unicodedata.normalize('NFC', text)
        if nfc != text:
            ids = golden_models.encode(tokenizers['qwen'], nfc)
            if ids != row['qwen']:
                row['qwen_nfc'] = ids
        rows.append(row)
    path = golden_models.HERE / 'tokenizers' / 'lines.jsonl'
    path.parent.mkdir(exist_ok=True)
    with open(path, 'w', encoding='utf-8', newline='\n') as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True, separators=(',', ':')) + '\n')
    print(f'{len(rows)} lines, {path.stat().st_size} bytes')


if __name__ == '__main__':
    main()
