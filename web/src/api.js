// Calls to the server that served this page. Nothing else is ever contacted.

export class ApiError extends Error {
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function failure(response) {
  try {
    const { error } = await response.json();
    return new ApiError(error.message, response.status, error.code);
  } catch {
    return new ApiError(`The server answered ${response.status}.`, response.status, null);
  }
}

export async function getJson(path) {
  const response = await fetch(path);
  if (!response.ok) throw await failure(response);
  return response.json();
}

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

// Streams one chat reply. Calls onText(text), onProgress(text); resolves to {usage, timings, finish}.
export async function streamChat(request, { signal, onText, onProgress }) {
  const response = await fetch('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ ...request, stream: true, stream_options: { include_usage: true } }),
    signal,
  });
  if (!response.ok) throw await failure(response);
  const result = { usage: null, timings: null, finish: null };
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
    for (const choice of json.choices) {
      if (choice.finish_reason) result.finish = choice.finish_reason;
      if (choice.delta?.content) onText(choice.delta.content);
    }
  }
  if (!complete) throw new ApiError('The reply was cut off before its end.', 0, 'cut_off');
  return result;
}
