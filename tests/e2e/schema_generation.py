"""Samples replies under schemas and has an independent validator judge them.

schema_generation.py [EVERY] [SEEDS]: takes every EVERYth schema of tests/golden/schemas/schemas.jsonl
(default 1: all) with SEEDS generations each (default 5) at temperature 1. A reply that ends by
itself must be valid JSON of its schema; a reply that is cut must be rare. BALLAST_BIN and
BALLAST_MODEL as in server_process.py.
"""

import concurrent.futures
import decimal
import json
import pathlib
import re
import sys
import urllib.request

import jsonschema

from server_process import MODEL, ServerProcess

SCHEMAS = pathlib.Path(__file__).resolve().parent.parent / "golden" / "schemas" / "schemas.jsonl"
MAX_TOKENS = 600
MAX_CUT_SHARE = 0.1


def exact(text):
    """Numbers as written: the validator divides floats, and 2.9 / 0.1 is not 29."""
    value = decimal.Decimal(text)
    return int(value) if value == value.to_integral_value() else value


def generate(url, name, schema, seed):
    body = {
        "model": MODEL, "seed": seed, "temperature": 1, "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": f"Give an example of {name} as JSON."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    }
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        choice = json.load(reply)["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def judge(name, schema, seed, text, finish):
    """None if fine, "cut", or what is wrong."""
    if finish == "length":
        return "cut"
    schema = json.loads(json.dumps(schema), parse_float=exact)
    try:
        value = json.loads(text, parse_float=exact)
        jsonschema.Draft202012Validator(schema).validate(value)
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{name}, seed {seed}: {text!r}: {error}"
    return None if finish == "stop" else f"{name}, seed {seed}: ended with {finish}"


def metric(url, name):
    with urllib.request.urlopen(url + "/metrics") as reply:
        return float(re.search(rf"^{name} (\S+)$", reply.read().decode(), re.M).group(1))


def main() -> int:
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    schemas = [json.loads(line) for line in SCHEMAS.read_text().splitlines() if line][::every]
    verdicts = []
    with ServerProcess() as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        def run(job):
            entry, seed = job
            text, finish = generate(server.url, entry["name"], entry["schema"], seed)
            return judge(entry["name"], entry["schema"], seed, text, finish)

        jobs = [(entry, seed) for entry in schemas for seed in range(seeds)]
        verdicts = list(pool.map(run, jobs))
        steps = metric(server.url, "ballast_engine_step_seconds_sum")
        made = metric(server.url, "ballast_grammar_mask_seconds_total")
        waited = metric(server.url, "ballast_grammar_wait_seconds_total")
        masks = metric(server.url, "ballast_grammar_masks_total")
    wrong = [verdict for verdict in verdicts if verdict not in (None, "cut")]
    cut = verdicts.count("cut")
    for verdict in wrong:
        print(verdict)
    print(f"{len(schemas)} schemas, {len(jobs)} generations: {len(jobs) - cut - len(wrong)} valid, "
          f"{len(wrong)} invalid, {cut} cut at {MAX_TOKENS} tokens; {masks:.0f} masks: "
          f"{100 * made / steps:.2f} % of step time beside the kernels, "
          f"{100 * waited / steps:.2f} % waited for")
    return 1 if wrong or cut > MAX_CUT_SHARE * len(jobs) else 0


sys.exit(main())
