"""How `ballast serve` is operated: operation_test.py BALLAST MAKE_MODEL.

Logs, the configuration file and the orderly end, on a seeded model; uses loopback only.
"""

import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

MAKE_MODEL = sys.argv.pop()
BALLAST = sys.argv.pop()
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("BALLAST_")} | {"BALLAST_CONFIG": "/dev/null"}
MARKER = "xyzzyplugh"


class Server:
    """A running server; its log is read when it has ended."""

    def __init__(self, model, *flags, **variables):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BALLAST, "serve", "-m", model, "--port", "0", "--json", "--memory", "512MiB", *flags],
            stdout=subprocess.PIPE, stderr=self.log, text=True, env=ENVIRONMENT | variables)
        line = self.process.stdout.readline()
        self.ready = json.loads(line) if line else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()

    def end(self):
        """The exit code after SIGTERM and the log's lines."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        return code, self.lines()

    def lines(self):
        self.log.seek(0)
        return self.log.read().splitlines()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.ready["port"], timeout=120)

    def call(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text,
                               {"Content-Type": "application/json"} | (headers or {}))
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


class OperationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.model = str(pathlib.Path(cls.dir) / "seeded.gguf")
        subprocess.run([MAKE_MODEL, "--arch", "llama", "--context", "65536", "--out", cls.model],
                       check=True, stdout=subprocess.DEVNULL)

    def write(self, name, text):
        path = pathlib.Path(self.dir) / name
        path.write_text(text)
        return str(path)

    def ask_everything(self, server):
        """Requests of every kind whose texts hold the marker."""
        prompt = {"prompt": f"Say {MARKER}", "max_tokens": 3, "ignore_eos": True}
        self.assertEqual(server.call("POST", "/v1/completions", prompt,
                                     {"x-request-id": "whole-1"})[0], 200)
        self.assertEqual(server.call("POST", "/v1/completions", prompt | {"stream": True},
                                     {"x-request-id": "stream-1"})[0], 200)
        self.assertEqual(server.call("POST", "/v1/embeddings", {"input": MARKER},
                                     {"x-request-id": "embed-1"})[0], 200)
        self.assertEqual(server.call("POST", "/v1/completions", {MARKER: 1},
                                     {"x-request-id": "bad-1"})[0], 400)
        self.assertEqual(server.call("POST", "/v1/completions", prompt | {"temperature": MARKER},
                                     {"x-request-id": "bad-2"})[0], 400)
        self.assertEqual(server.call("POST", "/tokenize", {"content": MARKER},
                                     {"x-request-id": "token-1"})[0], 200)
        self.assertEqual(server.call("GET", f"/{MARKER}", None, {"x-request-id": "lost-1"})[0], 404)
        self.assertEqual(server.call("GET", "/healthz", None, {"x-request-id": "health-1"})[0], 200)

    def test_json_lines_one_a_request_and_no_prompts(self):
        with Server(self.model, "--log-format", "json") as server:
            self.ask_everything(server)
            code, lines = server.end()
        self.assertEqual(code, 0)
        self.assertNotIn(MARKER, "\n".join(lines))
        parsed = [json.loads(line) for line in lines]
        for line in parsed:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["level"], ("info", "warning"))
        access = {}
        for line in parsed:
            if line["message"] == "access":
                self.assertNotIn(line["request_id"], access)
                access[line["request_id"]] = line
        self.assertEqual(sorted(access), ["bad-1", "bad-2", "embed-1", "lost-1", "stream-1",
                                          "token-1", "whole-1"])
        for name in ("whole-1", "stream-1"):
            line = access[name]
            self.assertEqual((line["method"], line["route"], line["status"]),
                             ("POST", "/v1/completions", 200))
            self.assertEqual(line["completion_tokens"], 3)
            self.assertGreater(line["prompt_tokens"], 0)
            self.assertGreater(line["duration_ms"], 0)
            self.assertEqual(line["peer"], "127.0.0.1")
        self.assertGreater(access["embed-1"]["prompt_tokens"], 0)
        self.assertEqual(access["bad-1"]["error"], "unknown_field")
        self.assertEqual((access["lost-1"]["route"], access["lost-1"]["status"]), ("none", 404))

    def test_text_lines_at_every_level_hold_no_prompts(self):
        with Server(self.model, "--log-level", "trace") as server:
            self.ask_everything(server)
            _, lines = server.end()
        self.assertNotIn(MARKER, "\n".join(lines))
        health = [line for line in lines if "request_id=health-1" in line]
        self.assertEqual(len(health), 1)
        self.assertIn(" access request_id=health-1 method=GET route=/healthz status=200 ",
                      health[0])

    def test_a_client_that_leaves_is_logged(self):
        with Server(self.model, "--log-format", "json") as server:
            connection = server.connect()
            body = {"prompt": "a", "max_tokens": 60000, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json", "x-request-id": "gone-1"})
            connection.getresponse().read(1)
            connection.sock.close()
            connection.close()
            until = time.monotonic() + 60
            while not any("gone-1" in line for line in server.lines()):
                self.assertLess(time.monotonic(), until, "no line about the client that left")
                time.sleep(0.05)
            line = json.loads(next(line for line in server.lines() if "gone-1" in line))
        self.assertEqual(line["status"], 499)
        self.assertGreater(line["completion_tokens"], 0)

    def test_hangups_reload_and_never_end_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            audit = os.path.join(folder, "audit.log")
            with Server(self.model, "--audit-log", audit) as server:
                for _ in range(300):
                    server.process.send_signal(signal.SIGHUP)
                self.assertEqual(server.call("GET", "/healthz")[0], 200)
                os.rename(audit, audit + ".1")
                server.process.send_signal(signal.SIGHUP)
                until = time.monotonic() + 60
                while not os.path.exists(audit):
                    self.assertLess(time.monotonic(), until, "SIGHUP does not reopen the log")
                    time.sleep(0.05)
                code, _ = server.end()
        self.assertEqual(code, 0)

    def test_the_end_lets_running_requests_finish_and_refuses_new_ones(self):
        with Server(self.model, "--drain-timeout", "3", "--log-format", "json") as server:
            connection = server.connect()
            body = {"prompt": "a", "max_tokens": 60000, "ignore_eos": True, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            stream = connection.getresponse()
            stream.read(1)
            rest = []
            reader = threading.Thread(target=lambda: rest.append(stream.read().decode()))
            reader.start()
            self.assertEqual(server.call("GET", "/readyz")[0], 200)
            server.process.send_signal(signal.SIGTERM)
            signalled = time.monotonic()
            until = signalled + 60
            while (ready := server.call("GET", "/readyz"))[0] == 200:
                self.assertLess(time.monotonic(), until, "it stays ready after SIGTERM")
            self.assertEqual(ready[0], 503)
            self.assertEqual(json.loads(ready[1])["error"]["code"], "draining")
            self.assertEqual(server.call("GET", "/healthz")[0], 200)
            refused = server.call("POST", "/v1/completions", {"prompt": "b", "max_tokens": 1})
            self.assertEqual(refused[0], 503, refused)
            self.assertEqual(server.process.wait(60), 0)
            self.assertGreater(time.monotonic() - signalled, 2.5)
            reader.join(60)
            connection.close()
        self.assertIn('"error"', rest[0])
        self.assertNotIn("[DONE]", rest[0])

    def test_settings_come_from_the_file_and_are_shown(self):
        path = self.write("ballast.toml", 'threads = 1\nmax-sequences = 3\n\nalias = "from-file"\n')
        with Server(self.model, "--config", path, BALLAST_THREADS="2") as server:
            self.assertEqual(server.ready["model"], "from-file")
            self.assertEqual(server.ready["threads"], 2)
        shown = subprocess.run([BALLAST, "config", "--config", path, "--max-sequences", "4", "--json"],
                               stdout=subprocess.PIPE, text=True, check=True,
                               env=ENVIRONMENT | {"BALLAST_THREADS": "2"})
        settings = json.loads(shown.stdout)
        self.assertEqual(settings["threads"], {"value": "2", "origin": "BALLAST_THREADS"})
        self.assertEqual(settings["max-sequences"], {"value": "4", "origin": "flag"})
        self.assertEqual(settings["alias"], {"value": "from-file", "origin": f"{path}:4"})
        self.assertEqual(settings["port"], {"value": "8420", "origin": "default"})

    def test_wrong_files_are_usage_errors(self):
        for text, wanted in (("\nprot = 1\n", ":2: the key 'prot' is unknown; did you mean 'port'?"),
                             ("port = 70000", ":1: --port: Value 70000 not in range"),
                             ("port = [1]", ":1: 'port' takes one string, number or boolean"),
                             ("port = ", ":1: ")):
            path = self.write("wrong.toml", text)
            done = subprocess.run([BALLAST, "serve", "--config", path], stderr=subprocess.PIPE,
                                  text=True, check=False, env=ENVIRONMENT)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(path + wanted, done.stderr)

    def doctor(self, *flags):
        done = subprocess.run([BALLAST, "doctor", "--json", *flags], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, env=ENVIRONMENT)
        checks = json.loads(done.stdout)["checks"]
        return done, {check["name"]: check["result"] for check in checks}

    def test_the_doctor_judges_model_and_port(self):
        flags = ["-m", self.model, "--port", "0", "--memory", "512MiB"]
        done, results = self.doctor(*flags)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((results["model"], results["port"], results["cpu"]), ("ok", "ok", "ok"))
        text = subprocess.run([BALLAST, "doctor", *flags], stdout=subprocess.PIPE, text=True,
                              check=True, env=ENVIRONMENT).stdout
        self.assertRegex(text, r"(?m)^ok +model ")
        cut = self.write("cut.gguf", "")
        whole = pathlib.Path(self.model).read_bytes()
        pathlib.Path(cut).write_bytes(whole[:len(whole) // 2])
        done, results = self.doctor("-m", cut, "--port", "0")
        self.assertEqual((done.returncode, results["model"]), (1, "fail"), done.stdout)
        self.assertIn("failed", done.stderr)
        with Server(self.model) as server:
            done, results = self.doctor("-m", self.model, "--port", str(server.ready["port"]))
            self.assertEqual((done.returncode, results["port"]), (0, "warn"), done.stdout)

    def test_completion_and_manual_are_sound(self):
        scripts = {}
        for shell in ("bash", "zsh", "fish"):
            done = subprocess.run([BALLAST, "completion", shell], stdout=subprocess.PIPE, text=True,
                                  check=True, env=ENVIRONMENT | {"BALLAST_CONFIG": "/absent"})
            scripts[shell] = self.write(f"completion.{shell}", done.stdout)
            if shutil.which(shell):
                subprocess.run([shell, "-n", scripts[shell]], check=True)
        offered = subprocess.run(
            ["bash", "-c", f"source {scripts['bash']}; COMP_WORDS=(ballast serve --po); "
             "COMP_CWORD=2; _ballast; echo ${COMPREPLY[@]}; COMP_WORDS=(ballast serve --isa a); "
             "COMP_CWORD=3; _ballast; echo ${COMPREPLY[@]}; COMP_WORDS=(ballast bench s); "
             "COMP_CWORD=2; _ballast; echo ${COMPREPLY[@]}; COMP_WORDS=(ballast do); COMP_CWORD=1; "
             "_ballast; echo ${COMPREPLY[@]}"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(offered.stdout.splitlines(),
                         ["--port", "avx2 avx512 amx", "speed", "doctor"])
        page = subprocess.run([BALLAST, "manual"], stdout=subprocess.PIPE, text=True, check=True,
                              env=ENVIRONMENT).stdout
        self.assertTrue(page.startswith(".TH BALLAST 1 "))
        if shutil.which("mandoc"):
            subprocess.run(["mandoc", "-T", "lint", "-W", "error"], input=page, text=True, check=True)


unittest.main()
