import { useEffect, useRef, useState } from 'preact/hooks';
import { memo } from '../lib/memo.js';
import { Icon, IconButton } from '../ui.jsx';
import { giveResult, resend, retry } from './conversation.js';
import { Code, Markdown } from './markdown.jsx';

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function AskResult({ session, call }) {
  const [text, setText] = useState('');
  const id = `result-${call.id}`;
  return (
    <form
      class="askResult"
      onSubmit={(event) => {
        event.preventDefault();
        giveResult(session, call, text);
      }}
    >
      <label for={id}>Result of {call.name}, as the model should see it</label>
      <textarea id={id} rows={2} value={text} onInput={(event) => setText(event.currentTarget.value)} placeholder='{"ok": true}' />
      <button type="submit" class="primary small">
        Send result
      </button>
    </form>
  );
}

function Call({ session, call, result, open, busy }) {
  return (
    <section class="call" aria-label={`Tool call ${call.name}`}>
      <p class="callHead">
        <Icon name="tool" /> <code>{call.name}</code>
        <span class="muted">{result ? 'called' : open || busy ? 'calling…' : 'waits for a result'}</span>
      </p>
      <Code language="arguments" text={pretty(call.args || '{}')} label={`Arguments of ${call.name}`} />
      {result && <Code language="result" text={pretty(result.content)} label={`Result of ${call.name}`} />}
      {!result && !open && !busy && <AskResult session={session} call={call} />}
    </section>
  );
}

function Reasoning({ text, open }) {
  return (
    <details class="reasoning">
      <summary>{open ? 'Thinking…' : 'Reasoning'}</summary>
      <Markdown text={text} />
    </details>
  );
}

function Stats({ message }) {
  if (message.open || message.stopped) return <span class="note">{message.note || (message.stopped ? 'stopped' : '')}</span>;
  return (
    <span class="note">
      {message.stats?.map(({ label, value }) => (
        <span key={value}>
          {label && `${label} `}
          {value}
        </span>
      ))}
    </span>
  );
}

function CopyButton({ text }) {
  const [done, setDone] = useState(false);
  return (
    <IconButton
      icon="copy"
      label={done ? 'Copied' : 'Copy'}
      onClick={() => navigator.clipboard?.writeText(text).then(() => setDone(true), () => {})}
    />
  );
}

export const Reply = memo(function Reply({ session, message, results, busy, waits }) {
  const silent = !message.content && !message.reasoning && !message.calls?.length;
  return (
    <article class="message assistant" aria-label="Reply" aria-busy={Boolean(message.open)}>
      <h2 class="hidden">Reply</h2>
      {message.reasoning && <Reasoning text={message.reasoning} open={message.open && !message.content} />}
      {message.content && <Markdown text={message.content} />}
      {message.open && silent && (
        <p class="pending" aria-hidden="true">
          <span />
          <span />
          <span />
        </p>
      )}
      {message.calls?.map((call) => (
        <Call key={call.id} session={session} call={call} result={results.find(({ callId }) => callId === call.id)} open={message.open} busy={busy || !waits} />
      ))}
      {message.warnings?.map((warning) => (
        <p key={warning} class="warning">
          {warning}
        </p>
      ))}
      {message.error && (
        <p class="error" role="alert">
          {message.error}
        </p>
      )}
      <footer>
        <Stats message={message} />
        {!message.open && (
          <span class="actions">
            {message.content && <CopyButton text={message.content} />}
            <IconButton icon="retry" label="Retry" disabled={busy} onClick={() => retry(session, message.id)} />
          </span>
        )}
      </footer>
    </article>
  );
});

function Editor({ text, onDone, onCancel }) {
  const [draft, setDraft] = useState(text);
  const box = useRef(null);
  useEffect(() => box.current.focus(), []);
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        onDone(draft);
      }}
    >
      <textarea
        ref={box}
        aria-label="Edit the message"
        rows={Math.min(8, draft.split('\n').length + 1)}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            onCancel();
          }
          if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            onDone(draft);
          }
        }}
      />
      <div class="row">
        <button type="submit" class="primary small" disabled={!draft.trim()}>
          Send again
        </button>
        <button type="button" class="small" onClick={onCancel}>
          Cancel
        </button>
        <span class="hint">Replies after it are replaced.</span>
      </div>
    </form>
  );
}

export const Question = memo(function Question({ session, message, busy }) {
  const [editing, setEditing] = useState(false);
  return (
    <article class="message user" aria-label="You">
      <h2 class="hidden">You</h2>
      {editing ? (
        <Editor
          text={message.content}
          onCancel={() => setEditing(false)}
          onDone={(text) => {
            setEditing(false);
            resend(session, message.id, text);
          }}
        />
      ) : (
        <>
          <div class="bubble">{message.content}</div>
          <footer>
            <span class="actions">
              <CopyButton text={message.content} />
              <IconButton icon="edit" label="Edit and send again" disabled={busy} onClick={() => setEditing(true)} />
            </span>
          </footer>
        </>
      )}
    </article>
  );
});
