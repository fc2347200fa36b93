"""Responses and embeddings with the official OpenAI client, messages with Anthropic's."""

import math
import unittest

import anthropic
import openai

from server_process import MODEL, ServerProcess

GREEDY = {"extra_body": {"temperature": 0}}  # recent clients have no argument for it
QUESTION = "What is the capital of France?"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}},
              "required": ["city"], "additionalProperties": False}


class Surfaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(ServerProcess())
        options = {"api_key": "unused", "max_retries": 0, "timeout": 120}
        cls.openai = openai.OpenAI(base_url=cls.server.url + "/v1", **options)
        cls.anthropic = anthropic.Anthropic(base_url=cls.server.url, **options)

    def test_embeddings(self):
        texts = ["The cat sleeps.", "A kitten is asleep.", "Interest rates rise."]
        single = [self.openai.embeddings.create(model=MODEL, input=text).data[0].embedding
                  for text in texts]
        batch = self.openai.embeddings.create(model=MODEL, input=texts)
        self.assertEqual([item.embedding for item in batch.data], single)
        self.assertGreater(batch.usage.prompt_tokens, 3)
        plain = self.openai.embeddings.create(model=MODEL, input=texts[0], encoding_format="float")
        self.assertTrue(all(math.isclose(a, b, rel_tol=1e-6) for a, b in
                            zip(plain.data[0].embedding, single[0], strict=True)))
        self.assertAlmostEqual(math.hypot(*single[0]), 1, places=5)
        short = self.openai.embeddings.create(model=MODEL, input=texts[0], dimensions=3)
        self.assertEqual(len(short.data[0].embedding), 3)
        self.assertAlmostEqual(math.hypot(*short.data[0].embedding), 1, places=5)

    def test_responses(self):
        reply = self.openai.responses.create(model=MODEL, input=QUESTION, temperature=0,
                                             max_output_tokens=200, store=False)
        self.assertIn("Paris", reply.output_text)
        with self.openai.responses.stream(model=MODEL, input=QUESTION, temperature=0,
                                          max_output_tokens=200) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual(kinds[0], "response.created")
        self.assertEqual(final.output_text, reply.output_text)
        self.assertEqual(final.usage.output_tokens, reply.usage.output_tokens)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.openai.responses.create(model=MODEL, input="x", previous_response_id="resp_1")
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_responses_with_functions(self):
        if self.server.fake:
            self.skipTest("the fake server answers a fixed text")
        tools = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS}]
        asked = [{"role": "user", "content": "What is the weather in Rome?"}]
        reply = self.openai.responses.create(
            model=MODEL, input=asked, tools=tools, tool_choice="required", temperature=0)
        call = next(item for item in reply.output if item.type == "function_call")
        self.assertEqual(call.name, "get_weather")
        again = self.openai.responses.create(
            model=MODEL, tools=tools, temperature=0, max_output_tokens=40, tool_choice="none",
            input=[*asked, *[item.model_dump(exclude_none=True) for item in reply.output],
                   {"type": "function_call_output", "call_id": call.call_id, "output": "22 C"}])
        self.assertTrue(again.output_text)

    def test_messages(self):
        asked = [{"role": "user", "content": QUESTION}]
        reply = self.anthropic.messages.create(
            model=MODEL, messages=asked, max_tokens=200, **GREEDY)
        self.assertIn("Paris", reply.content[0].text)
        self.assertGreater(reply.usage.output_tokens, 0)
        with self.anthropic.messages.stream(model=MODEL, messages=asked,
                                            max_tokens=200, **GREEDY) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, reply.content[0].text)
        self.assertEqual(final.stop_reason, reply.stop_reason)
        self.assertEqual(final.usage.output_tokens, reply.usage.output_tokens)
        count = self.anthropic.messages.count_tokens(model=MODEL, messages=asked)
        usage = reply.usage
        self.assertEqual(count.input_tokens, usage.input_tokens + usage.cache_read_input_tokens)

    def test_messages_with_tools(self):
        if self.server.fake:
            self.skipTest("the fake server answers a fixed text")
        tools = [{"name": "get_weather", "description": "The weather now",
                  "input_schema": PARAMETERS}]
        asked = [{"role": "user", "content": "What is the weather in Rome?"}]
        with self.anthropic.messages.stream(
                model=MODEL, messages=asked, tools=tools, max_tokens=200, **GREEDY,
                tool_choice={"type": "any"}) as stream:
            reply = stream.get_final_message()
        self.assertEqual(reply.stop_reason, "tool_use")
        use = next(block for block in reply.content if block.type == "tool_use")
        self.assertIn("city", use.input)
        again = self.anthropic.messages.create(
            model=MODEL, tools=tools, max_tokens=40, **GREEDY, messages=[
                *asked, {"role": "assistant", "content": [
                    {"type": "tool_use", "id": use.id, "name": use.name, "input": use.input}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": use.id, "content": "22 C"}]}])
        self.assertEqual(again.role, "assistant")

    def test_messages_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.anthropic.messages.create(
                model="other", messages=[{"role": "user", "content": "Hi"}], max_tokens=1)
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.anthropic.messages.create(model=MODEL, max_tokens=1,
                                           messages=[{"role": "user", "content": [{"type": "image"}]}])
        self.assertIn("messages[0].content[0].type", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
