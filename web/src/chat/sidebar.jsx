import { useStore } from '../lib/store.js';
import { Icon, IconButton } from '../ui.jsx';
import { running } from './conversation.js';
import { MAX_SESSIONS, open, sessions, startNew, titleOf } from './sessions.js';

const DAY = 86_400_000;

function when(at) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (at >= midnight) return 'Today';
  if (at >= midnight - DAY) return 'Yesterday';
  if (at >= midnight - 7 * DAY) return 'Last 7 days';
  return 'Older';
}

export function Sidebar({ onClose, onPick }) {
  const { list, current, full } = useStore(sessions);
  const busy = useStore(running);
  const groups = new Map();
  for (const session of list) {
    const name = when(session.updated);
    groups.set(name, [...(groups.get(name) ?? []), session]);
  }
  return (
    <nav class="sidebar" id="sidebar" aria-label="Chats">
      <div class="paneHead">
        <button
          type="button"
          class="newChat"
          onClick={() => {
            startNew();
            onPick();
          }}
        >
          <Icon name="plus" /> New chat
        </button>
        <IconButton icon="close" label="Close the list of chats" class="onlyNarrow" onClick={onClose} />
      </div>
      <div class="paneBody">
        {[...groups].map(([name, group]) => (
          <section key={name}>
            <h2>{name}</h2>
            <ul>
              {group.map((session) => (
                <li key={session.id}>
                  <button
                    type="button"
                    class="session"
                    aria-current={session.id === current.id ? 'true' : undefined}
                    onClick={() => {
                      open(session.id);
                      onPick();
                    }}
                  >
                    <span>{titleOf(session)}</span>
                    {busy[session.id] && <i class="dot" aria-label="replying" role="img" />}
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
        {list.length === 0 && <p class="hint">Chats are kept in this browser only.</p>}
        {full && (
          <p class="error" role="alert">
            The browser's storage is full: this chat is not kept. Export or delete something.
          </p>
        )}
        {list.length >= MAX_SESSIONS && <p class="hint">{MAX_SESSIONS} chats are kept; the oldest go first.</p>}
      </div>
    </nav>
  );
}
