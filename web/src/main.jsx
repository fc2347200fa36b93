import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { getJson } from './api.js';
import { Chat } from './chat.jsx';
import { Panel } from './panel.jsx';
import './style.css';

const DEMO_MODEL = 'smollm2-135m-instruct';
const BETTER_COMMAND = 'ballast run qwen2.5-coder-1.5b-instruct';
const POLL_MS = 1000;
const HISTORY = 120;

function useTheme() {
  const [theme, setTheme] = useState(() => localStorage.getItem('theme') ?? 'auto');
  useEffect(() => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem('theme', theme);
  }, [theme]);
  const dark =
    theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  return [dark ? 'dark' : 'light', () => setTheme(dark ? 'light' : 'dark')];
}

// The ledger once a second while the page is seen; the speeds of the last two minutes.
function useMemory() {
  const [state, setState] = useState({ memory: null, history: [[0], [0]], lost: false });
  useEffect(() => {
    let timer;
    const start = performance.now();
    const poll = async () => {
      if (!document.hidden) {
        try {
          const memory = await getJson('/v1/memory');
          const at = Math.round((performance.now() - start) / 1000);
          setState(({ history: [times, speeds] }) => ({
            memory,
            lost: false,
            history: [
              [...times, at].slice(-HISTORY),
              [...speeds, memory.decode_tokens_per_second].slice(-HISTORY),
            ],
          }));
        } catch {
          setState((old) => ({ ...old, lost: true }));
        }
      }
      timer = setTimeout(poll, POLL_MS);
    };
    poll();
    return () => clearTimeout(timer);
  }, []);
  return state;
}

function App() {
  const [theme, toggleTheme] = useTheme();
  const [model, setModel] = useState(null);
  const [error, setError] = useState('');
  const { memory, history, lost } = useMemory();
  const status = lost ? 'Server not reached' : memory ? 'Connected' : 'Connecting…';

  useEffect(() => {
    getJson('/v1/models').then(
      ({ data }) => setModel(data[0]),
      (failure) => setError(failure.message),
    );
  }, []);

  return (
    <>
      <header>
        <h1>Ballast</h1>
        <p class="model">
          {model ? `${model.id} · ${model.context_length} tokens of context · ${model.meta.isa}` : error || 'Loading…'}
        </p>
        <span class={lost ? 'status lost' : 'status'} role="status">
          {status}
        </span>
        <button type="button" class="quiet" onClick={toggleTheme}>
          {theme === 'dark' ? 'Light' : 'Dark'}
        </button>
      </header>
      {model?.id === DEMO_MODEL && (
        <p class="demo">
          This is a small demo model. A better one: <code>{BETTER_COMMAND}</code>
        </p>
      )}
      <main>
        <Chat model={model?.id} />
        <Panel memory={memory} history={history} theme={theme} />
      </main>
    </>
  );
}

render(<App />, document.getElementById('app'));
