import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { count } from '../lib/format.js';
import { models } from '../lib/live.js';
import { useStore } from '../lib/store.js';
import { Icon, IconButton, Modal } from '../ui.jsx';
import { announcement, openCalls, running, send, stop } from './conversation.js';
import { Question, Reply } from './message.jsx';
import { exportJson, remove, save, sessions, titleOf, update } from './sessions.js';
import { Settings } from './settings.jsx';
import { Sidebar } from './sidebar.jsx';

const DEMO_MODEL = 'smollm2-135m-instruct';
const BETTER_COMMAND = 'ballast run qwen2.5-coder-1.5b-instruct';
const NEAR_END = 60; // pixels
const NARROW = '(max-width: 860px)';
const SUGGESTIONS = ['What is the capital of France?', 'Write a function that reverses a string.', 'Explain what a KV cache is.'];

function download(session, model) {
  const url = URL.createObjectURL(new Blob([exportJson(session, model)], { type: 'application/json' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${titleOf(session).replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 40) || 'chat'}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

function Rename({ session, onClose }) {
  const [title, setTitle] = useState(titleOf(session));
  return (
    <Modal title="Rename the chat" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          update(session.id, () => ({ title: title.trim() || session.title }));
          save(session.id);
          onClose();
        }}
      >
        <input aria-label="Name" value={title} maxLength={120} onInput={(event) => setTitle(event.currentTarget.value)} />
        <div class="row end">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary">
            Rename
          </button>
        </div>
      </form>
    </Modal>
  );
}

function Delete({ session, onClose }) {
  return (
    <Modal title="Delete the chat?" onClose={onClose}>
      <p>“{titleOf(session)}” is removed from this browser. There is no other copy.</p>
      <div class="row end">
        <button type="button" onClick={onClose}>
          Keep
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            stop(session.id);
            remove(session.id);
            onClose();
          }}
        >
          Delete
        </button>
      </div>
    </Modal>
  );
}

function Composer({ session, busy, input }) {
  const [draft, setDraft] = useState('');
  useEffect(() => {
    input.current.focus();
  }, [session.id]);
  useLayoutEffect(() => {
    const box = input.current;
    box.style.height = 'auto';
    box.style.height = `${Math.min(box.scrollHeight + 2, 220)}px`;
  }, [draft]);
  const submit = () => {
    if (!draft.trim() || busy) return;
    send(session.id, draft);
    setDraft('');
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <label class="hidden" for="draft">
        Message
      </label>
      <textarea
        id="draft"
        ref={input}
        rows={1}
        placeholder="Message"
        aria-describedby="draftHint"
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
          }
        }}
      />
      {busy ? (
        <button type="button" class="round stop" aria-label="Stop" title="Stop (Esc)" onClick={() => stop(session.id)}>
          <Icon name="stop" />
        </button>
      ) : (
        <button type="submit" class="round" aria-label="Send" title="Send (Enter)" disabled={!draft.trim()}>
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}

function ContextUse({ session, limit }) {
  const usage = session.messages.findLast((message) => message.usage)?.usage;
  if (!usage || !limit) return null;
  const used = usage.prompt_tokens + usage.completion_tokens;
  return (
    <span class="contextUse">
      {count(used)} of {count(limit)} tokens of context
    </span>
  );
}

function Empty({ session, model }) {
  return (
    <div class="empty">
      <h2>Ask the model</h2>
      <p>What you write goes to this server and nowhere else.</p>
      <div class="suggestions">
        {SUGGESTIONS.map((text) => (
          <button type="button" key={text} onClick={() => send(session.id, text)}>
            {text}
          </button>
        ))}
      </div>
      {model?.id === DEMO_MODEL && (
        <p class="demo">
          This is a small demo model. A better one: <code>{BETTER_COMMAND}</code>
        </p>
      )}
    </div>
  );
}

// Results follow their calls and are shown there.
function Messages({ session, busy }) {
  const { messages } = session;
  const waiting = openCalls(session).length > 0;
  const lastReply = messages.findLastIndex(({ role }) => role === 'assistant');
  return messages.map((message, index) => {
    if (message.role === 'tool') return null;
    if (message.role === 'user') return <Question key={message.id} session={session.id} message={message} busy={busy} />;
    const ids = (message.calls ?? []).map(({ id }) => id);
    const results = ids.length ? messages.filter(({ callId }) => ids.includes(callId)) : NONE;
    return <Reply key={message.id} session={session.id} message={message} results={results} busy={busy} waits={waiting && index === lastReply} />;
  });
}
const NONE = [];

// Keeps the end in sight while it is in sight.
function useFollow(session) {
  const list = useRef(null);
  const follow = useRef(true);
  const shown = useRef(null);
  useLayoutEffect(() => {
    if (shown.current !== session.id || session.messages.at(-1)?.role === 'user') follow.current = true;
    shown.current = session.id;
    if (follow.current) list.current.scrollTop = list.current.scrollHeight;
  }, [session.messages, session.id]);
  const onScroll = () => {
    const box = list.current;
    follow.current = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
  };
  return { ref: list, onScroll };
}

export function ChatPage() {
  const { current: session } = useStore(sessions);
  const busy = Boolean(useStore(running)[session.id]);
  const [model] = useStore(models).data;
  const said = useStore(announcement);
  const [pane, setPane] = useState(null); // 'settings', on small screens also 'sidebar'
  const [dialog, setDialog] = useState(null);
  const input = useRef(null);
  const follow = useFollow(session);
  const wasBusy = useRef(false);

  useEffect(() => {
    // Focus comes back to the writer, unless it has gone elsewhere in the meantime.
    if (wasBusy.current && !busy && [document.body, null].includes(document.activeElement)) input.current.focus();
    wasBusy.current = busy;
  }, [busy]);

  const toggle = (name) => setPane(pane === name ? null : name);
  const closePane = () => {
    setPane(null);
    input.current.focus();
  };
  return (
    <div class={`chat ${pane ? `show-${pane}` : ''}`}>
      <Sidebar onClose={closePane} onPick={() => matchMedia(NARROW).matches && setPane(null)} />
      {pane && <div class="scrim" onClick={closePane} />}
      <section class="talk" aria-label="Conversation">
        <header class="talkHead">
          <IconButton icon="list" label="Chats" class="onlyNarrow" aria-expanded={pane === 'sidebar'} aria-controls="sidebar" onClick={() => toggle('sidebar')} />
          <h1>{titleOf(session)}</h1>
          {session.messages.length > 0 && (
            <>
              <IconButton icon="edit" label="Rename the chat" onClick={() => setDialog('rename')} />
              <IconButton icon="download" label="Export as JSON" onClick={() => download(session, model?.id)} />
              <IconButton icon="trash" label="Delete the chat" onClick={() => setDialog('delete')} />
            </>
          )}
          <IconButton icon="sliders" label="Settings" aria-expanded={pane === 'settings'} onClick={() => toggle('settings')} />
        </header>
        <div class="messages" {...follow} tabIndex={0} role="region" aria-label="Messages">
          <div class="column">
            {session.messages.length === 0 ? <Empty session={session} model={model} /> : <Messages session={session} busy={busy} />}
          </div>
        </div>
        <div class="foot">
          <Composer session={session} busy={busy} input={input} />
          <p class="hint" id="draftHint">
            <span>
              <kbd>Enter</kbd> sends, <kbd>Shift</kbd>+<kbd>Enter</kbd> makes a new line, <kbd>Esc</kbd> stops
            </span>
            <ContextUse session={session} limit={model?.context_length} />
          </p>
        </div>
        <p class="hidden" aria-live="polite">
          {said}
        </p>
      </section>
      {pane === 'settings' && <Settings session={session} onClose={closePane} />}
      {dialog === 'rename' && <Rename session={session} onClose={() => setDialog(null)} />}
      {dialog === 'delete' && <Delete session={session} onClose={() => setDialog(null)} />}
    </div>
  );
}
