"""The limits that `ballast serve` takes as flags: serve_flags_test.py BALLAST MAKE_MODEL.

Runs on a seeded model; uses loopback only.
"""

import http.client
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

MAKE_MODEL = sys.argv.pop()
BALLAST = sys.argv.pop()
FLAGS = ["--max-body", "2KiB", "--max-connections", "3", "--request-timeout", "1",
         "--allowed-hosts", "models.example,other.example", "--max-sequences", "2"]


class ServeFlagsTest(unittest.TestCase):
    """One server for all."""

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()
        cls.model = str(pathlib.Path(cls.dir.name) / "seeded.gguf")
        subprocess.run([MAKE_MODEL, "--arch", "llama", "--context", "65536", "--out", cls.model],
                       check=True, stdout=subprocess.DEVNULL)
        cls.server = subprocess.Popen([BALLAST, "serve", "-m", cls.model, "--port", "0", "--json",
                                       "--memory", "512MiB", *FLAGS],
                                      stdout=subprocess.PIPE, text=True)
        cls.port = json.loads(cls.server.stdout.readline())["port"]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.wait(60)
        cls.server.stdout.close()
        cls.dir.cleanup()

    def call(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def post(self, body):
        return self.call("POST", "/v1/completions", json.dumps(body),
                         {"Content-Type": "application/json"})

    def test_a_larger_body_is_refused(self):
        self.assertEqual(self.post({"prompt": "a" * 1500, "max_tokens": 1})[0], 200)
        status, text = self.post({"prompt": "a" * 2100, "max_tokens": 1})
        self.assertEqual(status, 413)
        self.assertIn("2048", text)

    def test_a_request_over_its_time_ends(self):
        status, text = self.post({"prompt": "a", "max_tokens": 60000, "ignore_eos": True})
        self.assertEqual(status, 504, text)
        self.assertIn("time limit", text)

    def test_only_the_allowed_names_reach_it(self):
        for name, wanted in (("models.example", 200), ("OTHER.example:80", 200), ("localhost", 200),
                             ("evil.example", 403)):
            self.assertEqual(self.call("GET", "/v1/models", headers={"Host": name})[0], wanted, name)

    def test_connections_over_the_limit_are_refused(self):
        held = []
        try:
            # Each is known to be served. One that a test before has closed may linger for 2 s.
            until = time.monotonic() + 30
            while len(held) < 3:
                self.assertLess(time.monotonic(), until, "fewer than three connections were served")
                held.append(socket.create_connection(("127.0.0.1", self.port)))
                held[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if b" 200 " not in held[-1].recv(4096):
                    held.pop().close()
                    time.sleep(0.1)
            self.assertEqual(self.call("GET", "/healthz")[0], 503)
        finally:
            for connection in held:
                connection.close()

    def test_wrong_values_are_usage_errors(self):
        for flags in (["--max-body", "12"], ["--max-body", "many"], ["--max-connections", "0"],
                      ["--request-timeout", "-1"], ["--max-sequences", "0"]):
            done = subprocess.run([BALLAST, "serve", "-m", self.model, "--port", "0", *flags],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(flags[0], done.stdout)


unittest.main()
