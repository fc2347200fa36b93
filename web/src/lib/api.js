// Calls to the server that served this page. Nothing else is ever contacted.
import { createStore } from './store.js';

const KEY = 'ballast.key';

// `needed`: the server asked for a key; `rejected`: it did not take the one it was given.
export const auth = createStore({ key: sessionStorage.getItem(KEY) ?? '', needed: false, rejected: false });

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
  auth.set({ key, needed: false, rejected: false });
}

export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function failure(response, key) {
  if (response.status === 401 && auth.get().key === key) {
    auth.set({ key, needed: true, rejected: key !== '' });
  }
  try {
    const { error } = await response.json();
    return new ApiError(error.message, response.status, error.code);
  } catch {
    return new ApiError(`The server answered ${response.status}.`, response.status, null);
  }
}

async function call(path, options = {}) {
  const { key } = auth.get();
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch(path, { ...options, headers, cache: 'no-store' });
  if (!response.ok) throw await failure(response, key);
  return response;
}

export const getJson = async (path) => (await call(path)).json();
export const getText = async (path) => (await call(path)).text();
export const cancelRequest = (id) => call(`/v1/requests/${encodeURIComponent(id)}`, { method: 'DELETE' });

// Splits a byte stream into server-sent blocks: {data} or {comment}.
export async function* sseBlocks(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let waiting = '';
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += decoder.decode(value, { stream: true });
    let end;
    while ((end = waiting.indexOf('\n\n')) >= 0) {
      const block = waiting.slice(0, end);
      waiting = waiting.slice(end + 2);
      if (block.startsWith('data: ')) yield { data: block.slice(6) };
      else if (block.startsWith(':')) yield { comment: block.slice(1).trim() };
    }
  }
}

// Streams one chat reply. Calls onDelta({content, reasoning_content, tool_calls}) and
// onProgress(text); resolves to {usage, timings, finish, warnings}.
export async function streamChat(request, { signal, onDelta, onProgress }) {
  const response = await call('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  const result = { usage: null, timings: null, finish: null, warnings: [] };
  let complete = false;
  for await (const block of sseBlocks(response.body)) {
    if (block.comment !== undefined) {
      onProgress(block.comment);
      continue;
    }
    if (block.data === '[DONE]') {
      complete = true;
      continue;
    }
    const json = JSON.parse(block.data);
    if (json.error) throw new ApiError(json.error.message, 0, json.error.code);
    if (json.usage) result.usage = json.usage;
    if (json.timings) result.timings = json.timings;
    if (json.warnings) result.warnings = json.warnings;
    for (const choice of json.choices) {
      if (choice.finish_reason) result.finish = choice.finish_reason;
      if (choice.delta) onDelta(choice.delta);
    }
  }
  if (!complete) throw new ApiError('The reply was cut off before its end.', 0, 'cut_off');
  return result;
}
