import { useEffect, useRef, useState } from 'preact/hooks';
import { streamChat } from './api.js';
import { replyStats } from './format.js';

function Message({ message }) {
  const name = message.role === 'user' ? 'You' : 'Model';
  return (
    <article class={`message ${message.role}`} aria-label={name}>
      <h3>{name}</h3>
      <div class="text">
        {message.content}
        {message.open && <span class="cursor" aria-hidden="true" />}
      </div>
      {message.note && <p class="note">{message.note}</p>}
      {message.error && (
        <p class="error" role="alert">
          {message.error}
        </p>
      )}
    </article>
  );
}

export function Chat({ model }) {
  const [messages, setMessages] = useState([]);
  const [draft, setDraft] = useState('');
  const [busy, setBusy] = useState(false);
  const [settings, setSettings] = useState({ system: '', temperature: '0.7', maxTokens: '512' });
  const abort = useRef(null);
  const input = useRef(null);
  const list = useRef(null);
  const follow = useRef(true);

  useEffect(() => {
    if (follow.current && list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [messages]);

  useEffect(() => {
    const stopOnEscape = (event) => {
      if (event.key === 'Escape') abort.current?.abort();
    };
    addEventListener('keydown', stopOnEscape);
    return () => removeEventListener('keydown', stopOnEscape);
  }, []);

  const patchLast = (patch) =>
    setMessages((all) => {
      const last = all[all.length - 1];
      return [...all.slice(0, -1), { ...last, ...patch(last) }];
    });

  async function send() {
    const text = draft.trim();
    if (!text || busy) return;
    const history = messages.filter((m) => !m.error && m.content);
    const turn = { role: 'user', content: text };
    setMessages([...messages, turn, { role: 'assistant', content: '', open: true }]);
    setDraft('');
    setBusy(true);
    follow.current = true;
    const sent = [...history, turn].map(({ role, content }) => ({ role, content }));
    if (settings.system.trim()) sent.unshift({ role: 'system', content: settings.system.trim() });
    // Before the server has named its model, no name asks for whatever it serves.
    const request = { model: model ?? '', messages: sent };
    if (settings.temperature !== '') request.temperature = Number(settings.temperature);
    if (settings.maxTokens !== '') request.max_tokens = Number(settings.maxTokens);
    abort.current = new AbortController();
    const started = performance.now();
    let pieces = 0;
    let first = 0;
    try {
      const result = await streamChat(request, {
        signal: abort.current.signal,
        onProgress: (note) => patchLast(() => ({ note })),
        onText: (more) => {
          const now = performance.now();
          if (pieces++ === 0) first = now;
          const rate = pieces > 2 ? `${((pieces - 1) / ((now - first) / 1e3)).toFixed(1)} tokens/s` : '';
          patchLast((last) => ({ content: last.content + more, note: rate }));
        },
      });
      patchLast(() => ({ open: false, note: replyStats(result) }));
    } catch (error) {
      if (error.name === 'AbortError') {
        const seconds = ((performance.now() - started) / 1e3).toFixed(1);
        patchLast(() => ({ open: false, note: `stopped after ${seconds} s` }));
      } else {
        patchLast(() => ({ open: false, note: '', error: error.message }));
      }
    }
    abort.current = null;
    setBusy(false);
    input.current?.focus();
  }

  const onKeyDown = (event) => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  };
  const onScroll = () => {
    const box = list.current;
    follow.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  };
  const field = (name) => ({
    value: settings[name],
    onInput: (event) => setSettings({ ...settings, [name]: event.currentTarget.value }),
  });

  return (
    <section class="chat" aria-label="Chat">
      <div class="messages" ref={list} onScroll={onScroll} tabIndex={0} role="log" aria-live="polite">
        {messages.length === 0 && <p class="empty">Ask something. The model runs on this machine.</p>}
        {messages.map((message, index) => (
          <Message key={index} message={message} />
        ))}
      </div>
      <form
        class="composer"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <label class="hidden" for="draft">
          Message
        </label>
        <textarea
          id="draft"
          ref={input}
          rows={3}
          autofocus
          placeholder="Message (Enter sends, Shift+Enter makes a new line, Esc stops)"
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <div class="buttons">
          {busy ? (
            <button type="button" class="stop" onClick={() => abort.current?.abort()}>
              Stop
            </button>
          ) : (
            <button type="submit" disabled={!draft.trim()}>
              Send
            </button>
          )}
          <button type="button" class="quiet" disabled={busy || messages.length === 0} onClick={() => setMessages([])}>
            New chat
          </button>
        </div>
      </form>
      <details class="settings">
        <summary>Settings</summary>
        <label>
          System prompt
          <textarea rows={2} {...field('system')} />
        </label>
        <label>
          Temperature
          <input type="number" min="0" max="2" step="0.1" {...field('temperature')} />
        </label>
        <label>
          Most tokens of a reply
          <input type="number" min="1" step="1" {...field('maxTokens')} />
        </label>
      </details>
    </section>
  );
}
