"""`ballast pull` against a local server: resume, checksums, tokens, dead sources, bad names.

Usage: pull_test.py PATH_TO_BALLAST. Uses loopback only; no model is loaded.
"""

import hashlib
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BALLAST = sys.argv.pop(1) if len(sys.argv) > 1 else "build/ballast"
BODY = b"GGUF" + bytes(range(256)) * 4096
SHA256 = hashlib.sha256(BODY).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    """Serves BODY as /org/repo/resolve/main/<name>; the name chooses the behaviour."""

    requests = []

    def log_message(self, *args):
        pass

    def do_GET(self):  # pylint: disable=invalid-name
        name = self.path.rsplit("/", 1)[-1]
        Hub.requests.append((self.path, dict(self.headers)))
        if name == "missing.gguf":
            self.send_error(404)
            return
        if name == "gated.gguf" and self.headers.get("Authorization") != "Bearer secret":
            self.send_error(401)
            return
        if name == "redirected.gguf":
            self.send_response(302)
            # Another host name, so that the token must not follow.
            self.send_header("Location", f"http://localhost:{self.server.server_port}/cdn/file.gguf")
            self.end_headers()
            return
        if name == "page.gguf":  # an error page that calls itself a success, without a hash
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")
            return
        start = 0
        if "Range" in self.headers and name != "norange.gguf":
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        promised = "0" * 64 if name == "corrupt.gguf" else SHA256
        self.send_header("X-Linked-Etag", f'"{promised}"')
        self.end_headers()
        if name == "stalls.gguf":
            self.wfile.write(BODY[:1000])
            self.wfile.flush()
            time.sleep(20)
            return
        if name == "cut.gguf" and not start:
            self.wfile.write(BODY[:300000])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.wfile.write(BODY[start:])


class PullTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.home = tempfile.TemporaryDirectory()
        Hub.requests = []

    def tearDown(self):
        self.server.shutdown()
        self.server.server_close()
        self.home.cleanup()

    def pull(self, name, *extra, **env):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
        environment.update(BALLAST_HOME=self.home.name,
                           HF_ENDPOINT=f"http://127.0.0.1:{self.server.server_port}", **env)
        return subprocess.run([BALLAST, "pull", name, *extra], env=environment, text=True,
                              capture_output=True, timeout=60, check=False)

    def stored(self, name):
        return pathlib.Path(self.home.name, "models", "hf", "org", "repo", name)

    def test_what_is_no_model_is_refused(self):
        result = self.pull("hf:org/repo/page.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn('does not begin with "GGUF"', result.stderr)
        self.assertEqual(list(self.stored("page.gguf").parent.glob("page.gguf*.partial")), [])
        self.assertFalse(self.stored("page.gguf").exists())

    def test_fetches_verifies_and_prints_the_path(self):
        result = self.pull("hf:org/repo/file.gguf", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        path = json.loads(result.stdout)["path"]
        self.assertEqual(path, str(self.stored("file.gguf")))
        self.assertEqual(pathlib.Path(path).read_bytes(), BODY)
        before = len(Hub.requests)
        self.assertEqual(self.pull("hf:org/repo/file.gguf").returncode, 0)
        self.assertEqual(len(Hub.requests), before, "a model on disk is not fetched again")

    def test_resumes_after_a_cut(self):
        self.assertEqual(self.pull("hf:org/repo/cut.gguf").returncode, 1)
        self.assertFalse(self.stored("cut.gguf").exists())
        self.assertEqual(self.stored("cut.gguf.partial").stat().st_size, 300000)
        result = self.pull("hf:org/repo/cut.gguf")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.stored("cut.gguf").read_bytes(), BODY)
        self.assertEqual(Hub.requests[-1][1].get("Range"), "bytes=300000-")
        self.assertFalse(self.stored("cut.gguf.partial").exists())

    def test_starts_over_where_the_server_cannot_resume(self):
        partial = self.stored("norange.gguf.partial")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(b"x" * 1234)
        self.assertEqual(self.pull("hf:org/repo/norange.gguf").returncode, 0)
        self.assertEqual(self.stored("norange.gguf").read_bytes(), BODY)

    def test_wrong_checksum_leaves_nothing(self):
        result = self.pull("hf:org/repo/corrupt.gguf")
        self.assertEqual(result.returncode, 1)
        self.assertIn("SHA-256", result.stderr)
        self.assertFalse(self.stored("corrupt.gguf").exists())
        self.assertFalse(self.stored("corrupt.gguf.partial").exists())

    def test_missing_and_gated_are_named(self):
        self.assertIn("404", self.pull("hf:org/repo/missing.gguf").stderr)
        self.assertIn("HF_TOKEN", self.pull("hf:org/repo/gated.gguf").stderr)
        result = self.pull("hf:org/repo/gated.gguf", HF_TOKEN="secret")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_token_does_not_follow_a_redirect_to_another_host(self):
        result = self.pull("hf:org/repo/redirected.gguf", HF_TOKEN="secret")
        self.assertEqual(result.returncode, 0, result.stderr)
        path, headers = Hub.requests[-1]
        self.assertEqual(path, "/cdn/file.gguf")
        self.assertNotIn("Authorization", headers)

    def test_dead_sources_are_given_up_soon(self):
        for endpoint in ("http://127.0.0.1:1", None):
            start = time.monotonic()
            if endpoint is None:
                result = self.pull("hf:org/repo/stalls.gguf")
            else:
                result = self.pull("hf:org/repo/file.gguf", BALLAST_HF_ENDPOINT=endpoint)
            self.assertEqual(result.returncode, 1)
            # The rule is 5 s without a byte; the rest is the machine's slack.
            self.assertLess(time.monotonic() - start, 12)

    def test_two_pulls_at_once_fetch_one_file(self):
        results = []
        threads = [threading.Thread(target=lambda: results.append(
            self.pull("hf:org/repo/file.gguf"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([r.returncode for r in results], [0, 0, 0])
        self.assertEqual(len(Hub.requests), 1)

    def test_bad_names_say_what_is_expected(self):
        result = self.pull("no-such-model")
        self.assertEqual(result.returncode, 1)
        self.assertIn("smollm2-135m-instruct", result.stderr)
        self.assertEqual(self.pull("hf:org/../x").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
