"""The official OpenAI Python client against a running server."""

import json
import time
import unittest
import urllib.request

import jsonschema
import openai

from server_process import MODEL, ServerProcess

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]

WEATHER = [{"role": "user", "content": "What is the weather in Rome?"}]
TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather in a city now",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "maxLength": 40},
            "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city"], "additionalProperties": False}}},
    {"type": "function", "function": {
        "name": "get_time", "description": "The time in a city now",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}},
                       "required": ["city"], "additionalProperties": False}}},
]


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

    def test_json_schema(self):
        if self.server.fake:
            self.skipTest("needs a model")
        schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20},
                                                   "people": {"type": "integer", "minimum": 0,
                                                              "maximum": 99_000_000}},
                  "required": ["city", "people"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema,
                                                       "strict": True}}
        for seed in range(3):
            options = dict(model=MODEL, messages=QUESTION, max_tokens=200, seed=seed,
                           response_format=form)
            reply = self.client.chat.completions.create(**options)
            self.assertEqual(reply.choices[0].finish_reason, "stop")
            jsonschema.validate(json.loads(reply.choices[0].message.content), schema)
            stream = self.client.chat.completions.create(**options, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            self.assertEqual(text, reply.choices[0].message.content)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                model=MODEL, messages=QUESTION, response_format={
                    "type": "json_schema", "json_schema": {"name": "x", "schema": {
                        "type": "array", "uniqueItems": True}}})
        self.assertIn("uniqueItems", caught.exception.message)

    def test_tools(self):
        if self.server.fake:
            self.skipTest("needs a model")
        for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
            reply = self.client.chat.completions.create(
                model=MODEL, messages=WEATHER, tools=TOOLS, tool_choice=choice, max_tokens=200,
                temperature=0)
            self.check_call(reply.choices[0].finish_reason,
                            reply.choices[0].message.tool_calls[0].function)
        # A whole turn: the result goes back, and an answer in text comes.
        message = reply.choices[0].message
        answer = self.client.chat.completions.create(
            model=MODEL, tools=TOOLS, tool_choice="none", max_tokens=60, temperature=0,
            messages=WEATHER + [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id,
                                          "content": "12 degrees and rain"}])
        self.assertTrue(answer.choices[0].message.content)
        self.assertIsNone(answer.choices[0].message.tool_calls)
        auto = self.client.chat.completions.create(model=MODEL, messages=WEATHER, tools=TOOLS,
                                                   max_tokens=100, temperature=0)
        for call in auto.choices[0].message.tool_calls or []:
            self.assertIn(call.function.name, ("get_weather", "get_time"))

    def test_streamed_tools(self):
        if self.server.fake:
            self.skipTest("needs a model")
        options = dict(model=MODEL, messages=WEATHER, tools=TOOLS, tool_choice="required",
                       max_tokens=200, temperature=0)
        whole = self.client.chat.completions.create(**options)
        name, arguments, finish, ids = "", "", None, []
        for chunk in self.client.chat.completions.create(**options, stream=True):
            for choice in chunk.choices:
                finish = choice.finish_reason or finish
                for call in choice.delta.tool_calls or []:
                    self.assertEqual(call.index, 0)
                    ids += [call.id] if call.id else []
                    name += call.function.name or ""
                    arguments += call.function.arguments or ""
        self.assertEqual(len(ids), 1)
        wanted = whole.choices[0].message.tool_calls[0].function
        self.assertEqual((name, arguments), (wanted.name, wanted.arguments))
        self.check_call(finish, wanted)

    def check_call(self, finish, function):
        self.assertEqual(finish, "tool_calls")
        [schema] = [tool["function"]["parameters"] for tool in TOOLS
                    if tool["function"]["name"] == function.name]
        jsonschema.validate(json.loads(function.arguments), schema)

    def test_choices_and_prefill(self):
        reply = self.client.chat.completions.create(model=MODEL, messages=QUESTION, n=2, seed=3,
                                                    max_tokens=8)
        self.assertEqual([choice.index for choice in reply.choices], [0, 1])
        begun = QUESTION + [{"role": "assistant", "content": "The capital of France is"}]
        reply = self.client.chat.completions.create(model=MODEL, messages=begun, max_tokens=8,
                                                    temperature=0)
        self.assertIn("Paris", reply.choices[0].message.content)

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
