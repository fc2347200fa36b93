"""The exactness contract on a real model, schedule by schedule, by the program's own `eval`.

Every row of the matrix changes only how the work is cut (chunks, batch, threads, one token a step,
kernel bodies); the hash over all logits must stay that of the first row of its block. Blocks differ
in context, settings and so in hash. Needs the program and a model; part of the long tier.

    python3 tests/golden/schedule_matrix.py build/ballast smollm2-135m-instruct [MODEL ...]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

TEXTS = pathlib.Path(__file__).parent / "texts"


def long_text() -> str:
    """All golden texts, twice: more than 2,048 tokens under every tokenizer here."""
    return "\n".join(path.read_text() for path in sorted(TEXTS.iterdir())) * 2


def isas_here() -> str:
    """The fast bodies that this CPU has; `ref` is left to shorter tests."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    wanted = {"avx2": "avx2", "avx512_vnni": "avx512", "amx_int8": "amx"}
    return ",".join(isa for flag, isa in wanted.items() if flag in flags)


def blocks(isas: list[str], kv: str) -> list[list[str]]:
    """Rows of one block give one hash."""
    setting = f" --kv-dtype {kv}"
    short = "--context 128" + setting
    batches = [short] + [f"{short} --batch {n}" for n in (2, 7, 32)]
    batches += [f"{short} --mode decode", f"{short} --mode decode --batch 7"]
    batches += [f"{short} --mode decode --threads {n}" for n in (1, 3)]
    middle = "--context 512" + setting
    chunks = [f"{middle} --prefill-chunk {n}" for n in (512, 64, 80, 256, 400)]
    chunks += [f"{middle} --threads {n}" for n in (1, 2, 3)]
    chunks += [f"{middle} --isa {isa}" for isa in isas]
    chunks += [f"{middle} --threads 3 --prefill-chunk 96 --batch 2 --isa {isas[0]}"]
    long = "--context 2048" + setting
    longs = [f"{long} --prefill-chunk {n}" for n in (2048, 64, 1008)]
    return [batches, chunks, longs]


def run_block(ballast: str, model: str, text: str, rows: list[str]) -> bool:
    expected = None
    same = True
    for row in rows:
        started = time.monotonic()
        command = [ballast, "eval", model, "--text", text, "--json", "--log-level", "error"]
        result = subprocess.run(command + row.split(), capture_output=True, text=True)
        if result.returncode != 0:
            print(f"FAILED {model} {row}: {result.stderr.strip()}")
            return False
        report = json.loads(result.stdout)
        found = report["logits_sha256"]
        context = int(row.split()[1])
        if report["tokens"] < context:
            print(f"FAILED {model} {row}: only {report['tokens']} tokens were evaluated")
            return False
        expected = expected or found
        mark = "ok  " if found == expected else "DIFF"
        same &= found == expected
        print(f"{mark} {model} {found[:16]} {row} ({time.monotonic() - started:.1f} s)", flush=True)
    return same


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("ballast")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--isas", default=isas_here(), help="kernel bodies to compare")
    args = parser.parse_args()
    same = True
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
        text.write(long_text())
        text.flush()
        for model in args.models:
            for kv in ("f16", "kv8"):
                for rows in blocks(args.isas.split(","), kv):
                    same &= run_block(args.ballast, model, text.name, rows)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
