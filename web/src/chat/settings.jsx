import { useState } from 'preact/hooks';
import { IconButton } from '../ui.jsx';
import { DEMO_TOOLS, parseCustomTools } from './demo_tools.js';
import { setParams, setTools } from './sessions.js';

const EXAMPLE = `[
  {
    "name": "read_sensor",
    "description": "Reads a sensor.",
    "parameters": {
      "type": "object",
      "properties": {"name": {"type": "string"}},
      "required": ["name"]
    }
  }
]`;

const NUMBERS = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 0.1, hint: '0 is greedy; empty: 1' },
  { name: 'topP', label: 'Top-p', min: 0, max: 1, step: 0.05, hint: 'empty: 1' },
  { name: 'maxTokens', label: 'Max tokens', min: 1, step: 1, hint: 'empty: until the context is full' },
  { name: 'seed', label: 'Seed', step: 1, hint: 'empty: another one each time' },
];

function ToolsEditor({ session }) {
  const [draft, setDraft] = useState(session.tools.custom);
  const [error, setError] = useState('');
  const change = (text) => {
    setDraft(text);
    try {
      parseCustomTools(text);
      setError('');
      setTools(session.id, { custom: text });
    } catch (problem) {
      setError(problem.message);
    }
  };
  return (
    <div class="field">
      <label for="customTools">Your tools, as JSON</label>
      <textarea
        id="customTools"
        class="mono"
        rows={7}
        spellcheck={false}
        placeholder={EXAMPLE}
        value={draft}
        aria-describedby="customToolsHint"
        aria-invalid={Boolean(error)}
        onInput={(event) => change(event.currentTarget.value)}
      />
      <p id="customToolsHint" class={error ? 'error' : 'hint'} role={error ? 'alert' : undefined}>
        {error || 'When the model calls one of these, you type its result.'}
      </p>
      {!draft && (
        <button type="button" class="small" onClick={() => change(EXAMPLE)}>
          Insert the example
        </button>
      )}
    </div>
  );
}

export function Settings({ session, onClose }) {
  const { params, tools } = session;
  const set = (name) => (event) => setParams(session.id, { [name]: event.currentTarget.value });
  return (
    <aside class="settings" id="settings" aria-label="Settings of this chat">
      <div class="paneHead">
        <h2>Settings</h2>
        <IconButton icon="close" label="Close the settings" onClick={onClose} />
      </div>
      <div class="paneBody">
        <div class="field">
          <label for="system">System prompt</label>
          <textarea id="system" rows={4} value={params.system} onInput={set('system')} placeholder="You are a helpful assistant." />
        </div>
        <div class="fields">
          {NUMBERS.map(({ name, label, hint, ...limits }) => (
            <div class="field" key={name}>
              <label for={name}>{label}</label>
              <input id={name} type="number" inputMode="decimal" {...limits} value={params[name]} onInput={set(name)} aria-describedby={`${name}Hint`} />
              <p class="hint" id={`${name}Hint`}>
                {hint}
              </p>
            </div>
          ))}
        </div>
        <fieldset>
          <legend>Tools in this browser</legend>
          {Object.entries(DEMO_TOOLS).map(([name, { definition }]) => (
            <label class="check" key={name}>
              <input type="checkbox" checked={tools[name]} onChange={(event) => setTools(session.id, { [name]: event.currentTarget.checked })} />
              <span>
                <code>{name}</code>
                <small>{definition.function.description}</small>
              </span>
            </label>
          ))}
        </fieldset>
        <ToolsEditor key={session.id} session={session} />
      </div>
    </aside>
  );
}
