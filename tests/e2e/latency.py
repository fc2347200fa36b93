"""Measures what a user waits for while a long prompt is computed: latency.py MODEL… (--help).

For each model a server is started (see server_process.py) and two things are timed:
- cancel: a client hangs up in the middle of a prompt of about 4,000 tokens; until the server says
  that nothing runs any more;
- gap: the longest pause of a running stream while another client's prompt of about 4,000 tokens is
  computed, beside the stream's usual pause.
Prints the figures and fails (exit 1) where one is over its limit. Timings need a quiet machine, so
this belongs to the long tier. A model that is not in the cache is skipped.
"""

import argparse
import http.client
import json
import os
import pathlib
import statistics
import sys
import threading
import time

import server_process

PROMPT_TOKENS = 4000
CANCEL_LIMIT_MS = 250
GAP_LIMIT_MS = {"smollm2-135m-instruct": 100}
DEFAULT_GAP_LIMIT_MS = 200


def prompt_of(salt: int) -> list[int]:
    """Token ids that every model has; `salt` keeps prompts from sharing a prefix."""
    return [100 + (salt * 7919 + i * i * 31 + i) % 4000 for i in range(PROMPT_TOKENS)]


class Stream:
    """A streamed completion whose arrival times are kept."""

    def __init__(self, port: int, body: dict):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.body = json.dumps({"stream": True, "ignore_eos": True, "temperature": 0, **body})
        self.times: list[float] = []

    def start(self):
        self.connection.request("POST", "/v1/completions", self.body,
                                {"Content-Type": "application/json"})
        return self

    def read(self, stop: threading.Event | None = None) -> None:
        response = self.connection.getresponse()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {response.read()[:300]}")
        while line := response.readline():
            if line.startswith(b"data: {"):
                self.times.append(time.perf_counter())
            if stop is not None and stop.is_set():
                break
        self.close()

    def close(self) -> None:
        self.connection.close()


def running(connection: http.client.HTTPConnection) -> int:
    connection.request("GET", "/v1/memory")
    return json.loads(connection.getresponse().read())["requests"]["running"]


def wait_for(connection, wanted: int) -> float:
    deadline = time.perf_counter() + 60
    while running(connection) != wanted:
        if time.perf_counter() > deadline:
            raise RuntimeError(f"requests running did not become {wanted}")
        time.sleep(0.001)
    return time.perf_counter()


def prefill_seconds(port: int) -> float:
    best = float("inf")
    for salt in (1, 2):
        start = time.perf_counter()
        Stream(port, {"prompt": prompt_of(salt), "max_tokens": 1}).start().read()
        best = min(best, time.perf_counter() - start)
    return best


def measure_cancels(port: int, whole_s: float, repeats: int) -> list[float]:
    """Milliseconds from a hang-up, at different places of the prompt, to the free slot."""
    probe = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    took = []
    for i in range(repeats):
        stream = Stream(port, {"prompt": prompt_of(10 + i), "max_tokens": 1}).start()
        started = wait_for(probe, 1)
        share = (0.5 + i) / repeats * 0.8
        time.sleep(max(0.0, share * whole_s - (time.perf_counter() - started)))
        left = time.perf_counter()
        stream.close()
        took.append((wait_for(probe, 0) - left) * 1e3)
    return took


def measure_gap(port: int, salt: int) -> tuple[float, float, float]:
    """(usual pause, longest pause beside the prompt, time of the prompt), in milliseconds."""
    stop = threading.Event()
    stream = Stream(port, {"prompt": [100 + salt], "max_tokens": 4000}).start()
    reader = threading.Thread(target=stream.read, args=(stop,))
    reader.start()
    time.sleep(1.0)
    begin = time.perf_counter()
    Stream(port, {"prompt": prompt_of(salt), "max_tokens": 1}).start().read()
    end = time.perf_counter()
    time.sleep(0.3)
    stop.set()
    reader.join()
    pauses = list(zip(stream.times, stream.times[1:]))
    usual = [b - a for a, b in pauses if b < begin]
    beside = [b - a for a, b in pauses if b > begin and a < end]
    return statistics.median(usual) * 1e3, max(beside) * 1e3, (end - begin) * 1e3


def measure(model: str, options: argparse.Namespace) -> dict:
    server_process.MODEL = model
    figures = {"model": model, "prompt_tokens": PROMPT_TOKENS}
    with server_process.ServerProcess() as server:
        port = int(server.url.rsplit(":", 1)[1])
        whole_s = prefill_seconds(port)
        figures["prefill_ms"] = whole_s * 1e3
        if options.only != "gap":
            figures["cancel_ms"] = sorted(measure_cancels(port, whole_s, options.repeats))
            figures["cancel_limit_ms"] = CANCEL_LIMIT_MS
        if options.only != "cancel":
            gaps = [measure_gap(port, 100 + i) for i in range(options.repeats)]
            figures["usual_gap_ms"] = statistics.median(g[0] for g in gaps)
            figures["longest_gap_ms"] = sorted(g[1] for g in gaps)
            figures["prefill_beside_stream_ms"] = statistics.median(g[2] for g in gaps)
            figures["gap_limit_ms"] = GAP_LIMIT_MS.get(model, DEFAULT_GAP_LIMIT_MS)
    return figures


def show(figures: dict) -> None:
    for key, value in figures.items():
        if isinstance(value, list):
            value = " ".join(f"{v:.0f}" for v in value)
        elif isinstance(value, float):
            value = f"{value:.1f}"
        print(f"{key:26}{value}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--json", action="store_true", help="one JSON object a model")
    parser.add_argument("--repeats", type=int, default=5, help="of each measurement")
    parser.add_argument("--only", choices=["cancel", "gap"], help="measure only this")
    options = parser.parse_args()
    home = pathlib.Path(os.environ.get("BALLAST_HOME") or "~/.cache/ballast").expanduser()
    failed = False
    for model in options.models:
        if not list((home / "models").glob(f"{model}*")):
            print(f"{model}: not in {home / 'models'}, skipped")
            if os.environ.get("BALLAST_TEST_FULL"):
                return 1
            continue
        figures = measure(model, options)
        if options.json:
            print(json.dumps(figures))
        else:
            show(figures)
        sys.stdout.flush()
        failed |= max(figures.get("cancel_ms", [0])) > CANCEL_LIMIT_MS
        failed |= max(figures.get("longest_gap_ms", [0])) > figures.get("gap_limit_ms", 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
