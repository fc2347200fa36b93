// The official OpenAI Node client against the server at BALLAST_URL.
import assert from 'node:assert/strict';
import { test } from 'node:test';
// Node's own fetch. The client's default, node-fetch 2, takes the end of every chunked reply for a premature
// close on Debian's Node 18.20.4+dfsg-1~deb12u3, whichever server sends it.
import 'openai/shims/web';
import OpenAI from 'openai';

const url = process.env.BALLAST_URL;
const model = process.env.BALLAST_MODEL ?? 'smollm2-135m-instruct';
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'unused', maxRetries: 0, timeout: 120_000 });
const messages = [{ role: 'user', content: 'What is the capital of France?' }];

async function gauge(name) {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(text.split('\n').find((line) => line.startsWith(`${name} `)).split(' ')[1]);
}

async function awaitIdle() {
  const until = Date.now() + 10_000;
  while ((await gauge('ballast_requests_running')) !== 0) {
    assert.ok(Date.now() < until, 'the request goes on without its client');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test('lists models', async () => {
  const ids = [];
  for await (const item of client.models.list()) ids.push(item.id);
  assert.deepEqual(ids, [model]);
});

test('answers and streams the same', async () => {
  const options = { model, messages, temperature: 0, max_tokens: 48 };
  const whole = await client.chat.completions.create(options);
  assert.match(whole.choices[0].message.content, /Paris/);
  const stream = await client.chat.completions.create({
    ...options,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test('the stream helper collects a whole reply', async () => {
  const runner = client.beta.chat.completions.stream({ model, messages, max_tokens: 16 });
  const final = await runner.finalChatCompletion();
  assert.ok(final.choices[0].message.content.length > 0);
});

const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'The weather in a city now',
      parameters: {
        type: 'object',
        properties: { city: { type: 'string', maxLength: 40 } },
        required: ['city'],
        additionalProperties: false,
      },
    },
  },
];

test('tools: forced, whole and through the stream helper', async () => {
  const options = { model, messages, tools, tool_choice: 'required', max_tokens: 200, temperature: 0 };
  const whole = await client.chat.completions.create(options);
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
  const call = whole.choices[0].message.tool_calls[0];
  assert.equal(call.function.name, 'get_weather');
  assert.equal(typeof JSON.parse(call.function.arguments).city, 'string');
  const streamed = await client.beta.chat.completions.stream(options).finalChatCompletion();
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
});

test('json_schema constrains the reply', async () => {
  const reply = await client.chat.completions.create({
    model,
    messages,
    max_tokens: 100,
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema: { enum: ['Paris', 'Rome'] } },
    },
  });
  assert.ok(['Paris', 'Rome'].includes(JSON.parse(reply.choices[0].message.content)));
});

test('errors have their classes', async () => {
  const create = (more) => client.chat.completions.create({ model, messages, ...more });
  await assert.rejects(create({ model: 'gpt-x' }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
    return true;
  });
  await assert.rejects(create({ temperature: 9 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.equal(error.param, 'temperature');
    return true;
  });
});

test('a timeout cancels the request', async () => {
  const slow = client.chat.completions.create(
    { model, messages, max_tokens: 3000, ignore_eos: true },
    { timeout: 200 },
  );
  await assert.rejects(slow, OpenAI.APIConnectionTimeoutError);
  await awaitIdle();
});

test('an aborted stream cancels the request', async () => {
  const stream = await client.chat.completions.create({
    model,
    messages,
    stream: true,
    max_tokens: 3000,
    ignore_eos: true,
  });
  for await (const chunk of stream) {
    assert.ok(chunk.id);
    break;
  }
  await awaitIdle();
});
