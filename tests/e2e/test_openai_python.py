"""The official OpenAI Python client against a running server."""

import time
import unittest
import urllib.request

import openai

from server_process import MODEL, ServerProcess

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def client_of(server, **options):
    options = {"max_retries": 0, "timeout": 120, **options}
    return openai.OpenAI(base_url=server.url + "/v1", api_key="unused", **options)


def gauge(server, name):
    with urllib.request.urlopen(server.url + "/metrics") as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
    raise KeyError(name)


def await_gauge(server, name, value, seconds=10):
    until = time.monotonic() + seconds
    while gauge(server, name) != value:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class OpenAiPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())
        cls.client = client_of(cls.server)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).owned_by, "ballast")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt-x")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_chat(self):
        reply = self.client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0,
                                                    max_tokens=64)
        self.assertIn("Paris", reply.choices[0].message.content)
        self.assertIn(reply.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(reply.usage.prompt_tokens, 0)
        self.assertEqual(reply.usage.total_tokens,
                         reply.usage.prompt_tokens + reply.usage.completion_tokens)
        self.assertGreaterEqual(reply.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertGreater(reply.timings["predicted_n"], 0)

    def test_stream_equals_whole(self):
        options = dict(model=MODEL, messages=QUESTION, temperature=0, max_tokens=48)
        whole = self.client.chat.completions.create(**options)
        text, usage, finish = "", None, None
        stream = self.client.chat.completions.create(
            **options, stream=True, stream_options={"include_usage": True})
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(finish, whole.choices[0].finish_reason)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_seed_repeats(self):
        options = dict(model=MODEL, messages=QUESTION, temperature=1, seed=7, max_tokens=24)
        first, second = (self.client.chat.completions.create(**options) for _ in range(2))
        self.assertEqual(first.choices[0].message.content, second.choices[0].message.content)

    def test_completions_and_logprobs(self):
        reply = self.client.completions.create(model=MODEL, prompt=["The capital of France is", "One"],
                                               max_tokens=4, temperature=0, logprobs=2)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1])
        self.assertEqual(len(reply.choices[0].logprobs.tokens), 4)
        chat = self.client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=3,
                                                   logprobs=True, top_logprobs=2)
        self.assertEqual(len(chat.choices[0].logprobs.content), 3)
        self.assertLessEqual(chat.choices[0].logprobs.content[0].logprob, 0)

    def test_stop(self):
        reply = self.client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0,
                                                    max_tokens=64, stop=["Paris"])
        self.assertNotIn("Paris", reply.choices[0].message.content)
        self.assertEqual(reply.choices[0].finish_reason, "stop")

    def test_errors(self):
        create = self.client.chat.completions.create
        with self.assertRaises(openai.NotFoundError):
            create(model="gpt-x", messages=QUESTION)
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=MODEL, messages=QUESTION, temperature=9)
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=MODEL, messages=QUESTION, extra_body={"no_such_field": 1})
        self.assertEqual(caught.exception.param, "no_such_field")
        with self.assertRaises(openai.BadRequestError) as caught:
            create(model=MODEL, messages=[{"role": "user", "content": "word " * 50_000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")


class OpenAiPythonUnderLoad(unittest.TestCase):
    def test_timeout_cancels(self):
        with ServerProcess(slow=True) as server:
            client = client_of(server, timeout=0.5)
            with self.assertRaises(openai.APITimeoutError):
                client.chat.completions.create(model=MODEL, messages=QUESTION,
                                               max_tokens=3000, extra_body={"ignore_eos": True})
            self.assertTrue(await_gauge(server, "ballast_requests_running", 0))
            self.assertEqual(gauge(server, "ballast_requests_cancelled_total"), 1)

    def test_closed_stream_cancels(self):
        with ServerProcess(slow=True) as server:
            stream = client_of(server).chat.completions.create(
                model=MODEL, messages=QUESTION, stream=True, max_tokens=3000,
                extra_body={"ignore_eos": True})
            next(iter(stream))
            stream.close()
            self.assertTrue(await_gauge(server, "ballast_requests_running", 0))

    def test_full_queue_is_429(self):
        with ServerProcess(slow=True, small_queue=True) as server:
            client = client_of(server)
            streams = []
            with self.assertRaises(openai.RateLimitError) as caught:
                for _ in range(80):
                    streams.append(client.chat.completions.create(
                        model=MODEL, messages=QUESTION, stream=True, max_tokens=3000,
                        extra_body={"ignore_eos": True}))
            self.assertEqual(caught.exception.code, "queue_full")
            self.assertIn("retry-after", caught.exception.response.headers)
            for stream in streams:
                stream.close()
            self.assertTrue(await_gauge(server, "ballast_requests_running", 0))


if __name__ == "__main__":
    unittest.main()
