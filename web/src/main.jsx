import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ChatPage } from './chat/chat.jsx';
import { stopCurrent } from './chat/conversation.js';
import { auth, setKey } from './lib/api.js';
import { memory, models, startLive } from './lib/live.js';
import { page, PAGES } from './lib/router.js';
import { useStore } from './lib/store.js';
import { MemoryPage } from './pages/memory.jsx';
import { ModelsPage } from './pages/models.jsx';
import { TrafficPage } from './pages/traffic.jsx';
import { theme, toggleTheme } from './theme.js';
import { IconButton, Modal } from './ui.jsx';
import './style.css';

const VIEWS = { chat: ChatPage, memory: MemoryPage, traffic: TrafficPage, models: ModelsPage };
const NAMES = { chat: 'Chat', memory: 'Memory', traffic: 'Traffic', models: 'Models' };

function KeyDialog({ rejected, onClose }) {
  const [key, set] = useState('');
  return (
    <Modal title="API key" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setKey(key.trim());
          onClose();
        }}
      >
        <p>{rejected ? 'The server does not take this key.' : 'This server asks for a key.'} It is kept until this tab is closed.</p>
        <input type="password" aria-label="API key" autocomplete="off" value={key} onInput={(event) => set(event.currentTarget.value)} />
        <div class="row end">
          <button type="button" onClick={onClose}>
            Later
          </button>
          <button type="submit" class="primary" disabled={!key.trim()}>
            Use key
          </button>
        </div>
      </form>
    </Modal>
  );
}

function Status() {
  const { state } = useStore(memory);
  const { needed } = useStore(auth);
  const { data } = useStore(models);
  const text = needed ? 'Key needed' : state === 'lost' ? 'Server not reached' : state === 'waiting' && !data.length ? 'Connecting…' : 'Connected';
  return (
    <p class={`status ${needed || state === 'lost' ? 'lost' : ''}`} role="status">
      <span class="statusText">{text}</span>
      {data[0] && <span class="modelName">{data[0].id}</span>}
    </p>
  );
}

function App() {
  const shown = useStore(page);
  const shade = useStore(theme);
  const { key, needed, rejected } = useStore(auth);
  const [asking, setAsking] = useState(false);
  const View = VIEWS[shown];

  useEffect(() => setAsking(needed), [needed, rejected]);
  useEffect(() => {
    document.title = `${NAMES[shown]} · Ballast`;
  }, [shown]);
  useEffect(() => {
    const onKeyDown = (event) => {
      if (event.key === 'Escape' && stopCurrent()) event.preventDefault();
    };
    addEventListener('keydown', onKeyDown);
    return () => removeEventListener('keydown', onKeyDown);
  }, []);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.getElementById('main').focus();
      }}>
        Skip to the content
      </a>
      <header class="bar">
        <a class="brand" href="#/chat" aria-label="Ballast">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path d="M12 2v4M7 6h10l4 13a2 2 0 0 1-2 3H5a2 2 0 0 1-2-3z" />
          </svg>
          <span>Ballast</span>
        </a>
        <nav aria-label="Pages">
          {PAGES.map((name) => (
            <a key={name} href={`#/${name}`} aria-current={shown === name ? 'page' : undefined}>
              {NAMES[name]}
            </a>
          ))}
        </nav>
        <Status />
        {(needed || key) && <IconButton icon="key" label="API key" onClick={() => setAsking(true)} />}
        <IconButton icon={shade === 'dark' ? 'sun' : 'moon'} label={shade === 'dark' ? 'Light' : 'Dark'} onClick={toggleTheme} />
      </header>
      <main id="main" tabIndex={-1}>
        <View />
      </main>
      {asking && <KeyDialog rejected={rejected} onClose={() => setAsking(false)} />}
    </>
  );
}

startLive();
render(<App />, document.getElementById('app'));
