"""Starts a server for the client tests and stops it.

BALLAST_BIN names the program (with BALLAST_MODEL, default smollm2-135m-instruct). Without it,
BALLAST_FAKE_SERVER names the server without a model, which answers a fixed text.
"""

import json
import os
import subprocess
import threading

MODEL = os.environ.get("BALLAST_MODEL", "smollm2-135m-instruct")


class ServerProcess:
    """A running server; `url` is its address. Use as a context manager."""

    def __init__(self, slow: bool = False, small_queue: bool = False):
        program = os.environ.get("BALLAST_BIN")
        self.fake = not program
        if program:
            command = [program, "serve", "-m", MODEL, "--port", "0", "--json"]
            command += ["--max-queue", "1"] if small_queue else []
        else:
            command = [os.environ["BALLAST_FAKE_SERVER"], "--step-ms", "20" if slow else "2"]
            command += ["--running", "1", "--queue", "1"] if small_queue else []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        timer = threading.Timer(120, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            raise RuntimeError(f"{command[0]} did not start (exit {self.process.wait()})")
        self.url = f"http://127.0.0.1:{json.loads(line)['port']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()  # ends the fake server
        if not self.fake:
            self.process.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process.stdout.close()
        if status != 0:
            raise RuntimeError(f"the server ended with {status}")
