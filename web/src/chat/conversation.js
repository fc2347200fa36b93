// Runs chats: sends, streams, calls tools, goes on. It belongs to no view, so a reply goes on while
// another page or chat is looked at. What streams in is shown once a frame, however fast it comes.
import { streamChat } from '../lib/api.js';
import { models } from '../lib/live.js';
import { replyStats } from '../lib/format.js';
import { createStore } from '../lib/store.js';
import { DEMO_TOOLS, parseCustomTools, runDemoTool } from './demo_tools.js';
import { find, newId, save, sessions, update } from './sessions.js';

const MAX_ROUNDS = 8; // replies to one message, tool results included
const HIDDEN_MS = 250; // a page that is not seen gets no frames

// {[session id]: AbortController}
export const running = createStore({});
// What a screen reader is told: whole replies, never single tokens.
export const announcement = createStore('');

export const stop = (id) => running.get()[id]?.abort();
export function stopCurrent() {
  const { current } = sessions.get();
  const busy = Boolean(running.get()[current.id]);
  stop(current.id);
  return busy;
}

function setRunning(id, controller) {
  running.set(({ [id]: _, ...others }) => (controller ? { ...others, [id]: controller } : others));
}

function patch(id, messageId, change) {
  update(id, (session) => ({
    messages: session.messages.map((message) => (message.id === messageId ? { ...message, ...change(message) } : message)),
  }));
}

export function toolsOf(session) {
  const demo = Object.entries(DEMO_TOOLS).filter(([name]) => session.tools[name]);
  return [...demo.map(([, { definition }]) => definition), ...parseCustomTools(session.tools.custom)];
}

function apiMessage(message) {
  if (message.role === 'tool') return { role: 'tool', tool_call_id: message.callId, content: message.content };
  if (!message.calls?.length) return { role: message.role, content: message.content };
  const tool_calls = message.calls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } }));
  return { role: 'assistant', content: message.content || null, tool_calls };
}

// A call without a result would be refused: a reply stopped within its calls goes as text.
function history(session) {
  const answered = new Set(session.messages.filter(({ role }) => role === 'tool').map(({ callId }) => callId));
  return session.messages
    .filter(({ role, content, calls, open }) => !open && (role === 'tool' || content || calls?.length))
    .map((message) => ({ ...message, calls: message.calls?.every(({ id }) => answered.has(id)) ? message.calls : [] }))
    .filter(({ role, content, calls }) => role === 'tool' || content || calls.length)
    .map(apiMessage);
}

function requestOf(session) {
  const { params } = session;
  const system = params.system.trim();
  // Before the server has named its model, no name asks for whatever it serves.
  const request = {
    model: models.get().data[0]?.id ?? '',
    messages: [...(system ? [{ role: 'system', content: system }] : []), ...history(session)],
  };
  const number = (field, text) => {
    if (text !== '') request[field] = Number(text);
  };
  number('temperature', params.temperature);
  number('top_p', params.topP);
  number('max_tokens', params.maxTokens);
  number('seed', params.seed);
  const tools = toolsOf(session);
  if (tools.length > 0) request.tools = tools;
  return request;
}

// Collects deltas and hands them on once a frame.
function frameBuffer(apply) {
  let waiting = null;
  let scheduled = false;
  const flush = () => {
    scheduled = false;
    const deltas = waiting;
    waiting = null;
    if (deltas) apply(deltas);
  };
  return {
    add(delta) {
      (waiting ??= []).push(delta);
      if (scheduled) return;
      scheduled = true;
      if (document.hidden) setTimeout(flush, HIDDEN_MS);
      else requestAnimationFrame(flush);
    },
    flush,
  };
}

// The message after some deltas.
export function withDeltas(message, deltas) {
  let { content, reasoning = '' } = message;
  const calls = (message.calls ?? []).map((call) => ({ ...call }));
  for (const delta of deltas) {
    content += delta.content ?? '';
    reasoning += delta.reasoning_content ?? '';
    for (const { index, id, function: fn } of delta.tool_calls ?? []) {
      calls[index] ??= { id, name: '', args: '' };
      if (fn?.name) calls[index].name += fn.name;
      calls[index].args += fn?.arguments ?? '';
    }
  }
  return { content, reasoning, calls };
}

// One reply. Resolves to its message, or null when it did not come to its end.
async function reply(id, controller) {
  const message = { id: newId(), role: 'assistant', content: '', reasoning: '', calls: [], open: true, at: Date.now() };
  let request;
  try {
    request = requestOf(find(id));
  } catch (error) {
    update(id, ({ messages }) => ({ messages: [...messages, { ...message, open: false, error: error.message }] }));
    return null;
  }
  update(id, ({ messages }) => ({ messages: [...messages, message], updated: Date.now() }));
  const started = performance.now();
  let pieces = 0;
  let firstAt = 0;
  const buffer = frameBuffer((deltas) => {
    const now = performance.now();
    firstAt ||= now;
    pieces += deltas.length;
    const rate = now - firstAt > 300 ? `${((pieces - 1) / ((now - firstAt) / 1e3)).toFixed(1)} tok/s` : '';
    patch(id, message.id, (old) => ({ ...withDeltas(old, deltas), note: rate }));
  });
  try {
    const result = await streamChat(request, {
      signal: controller.signal,
      onProgress: (note) => patch(id, message.id, () => ({ note })),
      onDelta: (delta) => (delta.content || delta.reasoning_content || delta.tool_calls) && buffer.add(delta),
    });
    buffer.flush();
    patch(id, message.id, () => ({
      open: false,
      note: '',
      stats: replyStats(result),
      usage: result.usage,
      timings: result.timings,
      warnings: result.warnings,
    }));
    return find(id)?.messages.find((one) => one.id === message.id) ?? null;
  } catch (error) {
    buffer.flush();
    const stopped = error.name === 'AbortError';
    const seconds = ((performance.now() - started) / 1e3).toFixed(1);
    patch(id, message.id, () =>
      stopped ? { open: false, stopped: true, note: `stopped after ${seconds} s` } : { open: false, note: '', error: error.message },
    );
    if (stopped) announcement.set('Stopped.');
    return null;
  }
}

// Calls the built-in tools; the results of others come from the user. True when all are known.
function answerCalls(id, { calls }) {
  const { tools } = find(id);
  let all = true;
  for (const call of calls) {
    if (!Object.hasOwn(DEMO_TOOLS, call.name) || !tools[call.name]) {
      all = false;
      continue;
    }
    const result = { id: newId(), role: 'tool', callId: call.id, name: call.name, content: runDemoTool(call.name, call.args) };
    update(id, ({ messages }) => ({ messages: [...messages, result] }));
  }
  return all;
}

async function run(id) {
  if (running.get()[id]) return;
  const controller = new AbortController();
  setRunning(id, controller);
  try {
    for (let round = 0; round < MAX_ROUNDS; ++round) {
      const message = await reply(id, controller);
      save(id);
      if (!message) return;
      if (message.calls.length === 0) {
        announcement.set(`Reply: ${message.content}`);
        return;
      }
      announcement.set(`The model calls ${message.calls.map(({ name }) => name).join(', ')}.`);
      if (!answerCalls(id, message)) return;
      save(id);
    }
  } finally {
    setRunning(id, null);
    save(id);
  }
}

const titleFrom = (text) => (text.length > 48 ? `${text.slice(0, 46).trimEnd()}…` : text).replace(/\s+/g, ' ').replace(/\*\*|[`#]/g, '');

export function send(id, text) {
  const content = text.trim();
  if (!content || running.get()[id]) return;
  update(id, (session) => ({
    title: session.title || titleFrom(content),
    updated: Date.now(),
    messages: [...session.messages, { id: newId(), role: 'user', content }],
  }));
  save(id);
  run(id);
}

// Drops what followed the question before `messageId` and asks again.
export function retry(id, messageId) {
  if (running.get()[id]) return;
  update(id, ({ messages }) => {
    const at = messages.findIndex((message) => message.id === messageId);
    const question = messages.slice(0, at + 1).findLastIndex(({ role }) => role === 'user');
    return { messages: messages.slice(0, question + 1) };
  });
  run(id);
}

// Puts `text` in the place of a question; what followed it is dropped.
export function resend(id, messageId, text) {
  if (!text.trim() || running.get()[id]) return;
  update(id, ({ messages }) => {
    const at = messages.findIndex((message) => message.id === messageId);
    return { messages: [...messages.slice(0, at), { ...messages[at], content: text.trim() }] };
  });
  run(id);
}

// The result of a tool that only the user can run; goes on when it was the last one.
export function giveResult(id, call, content) {
  if (running.get()[id]) return;
  update(id, ({ messages }) => ({
    messages: [...messages, { id: newId(), role: 'tool', callId: call.id, name: call.name, content }],
  }));
  save(id);
  if (openCalls(find(id)).length === 0) run(id);
}

// Calls of the last reply that still wait for a result.
export function openCalls(session) {
  const at = session.messages.findLastIndex(({ role }) => role === 'assistant');
  if (at < 0) return [];
  const answered = new Set(session.messages.slice(at + 1).map(({ callId }) => callId));
  return (session.messages[at].calls ?? []).filter(({ id }) => !answered.has(id));
}

addEventListener('pagehide', () => Object.keys(running.get()).forEach(save));
