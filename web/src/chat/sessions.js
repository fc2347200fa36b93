// Chats, kept in this browser and nowhere else. One localStorage entry a chat, so that a save costs
// the chat and not all of them. Bounds: MAX_SESSIONS and what the browser allows; the oldest go first.
import { createStore } from '../lib/store.js';

const PREFIX = 'ballast.chat.';
const CURRENT = 'ballast.current';
const DEFAULTS = 'ballast.params';
export const MAX_SESSIONS = 100;

const PARAMS = { system: '', temperature: '0.7', topP: '', maxTokens: '512', seed: '' };
const TOOLS = { clock: false, calculator: false, custom: '' };

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) => b.toString(16).padStart(2, '0')).join('');

function parse(text, fallback) {
  try {
    return JSON.parse(text) ?? fallback;
  } catch {
    return fallback;
  }
}

function load() {
  const list = [];
  for (let i = 0; i < localStorage.length; ++i) {
    const key = localStorage.key(i);
    if (!key.startsWith(PREFIX)) continue;
    const session = parse(localStorage.getItem(key), null);
    if (!session?.id || !Array.isArray(session.messages) || !session.messages.every((one) => one?.role)) continue;
    // A reply that was open when the page went away stays as far as it came.
    const messages = session.messages.map(({ open, ...message }) => (open ? { ...message, stopped: true } : message));
    list.push({ ...session, messages, params: { ...PARAMS, ...session.params }, tools: { ...TOOLS, ...session.tools } });
  }
  return list.sort((a, b) => b.updated - a.updated);
}

function blank() {
  const { params, tools } = parse(localStorage.getItem(DEFAULTS), {});
  return {
    id: newId(),
    title: '',
    created: Date.now(),
    updated: Date.now(),
    messages: [],
    params: { ...PARAMS, ...params, system: '', seed: '' },
    tools: { ...TOOLS, ...tools, custom: '' },
  };
}

const loaded = load();
const first = loaded.find(({ id }) => id === localStorage.getItem(CURRENT)) ?? loaded[0] ?? blank();

// `list` holds chats with messages; a new one joins it with its first message.
export const sessions = createStore({ list: loaded, current: first, full: false });

const keep = (list, session) =>
  session.messages.length === 0 ? list : [session, ...list.filter(({ id }) => id !== session.id)].sort((a, b) => b.updated - a.updated);

// False when the browser has no room.
function write(key, text) {
  try {
    localStorage.setItem(key, text);
    return true;
  } catch {
    return false;
  }
}

function forgetOldest(list, keepId) {
  const oldest = list.filter(({ id }) => id !== keepId).at(-1);
  if (!oldest) return null;
  localStorage.removeItem(PREFIX + oldest.id);
  return list.filter(({ id }) => id !== oldest.id);
}

// Writes one chat; makes room by forgetting the oldest ones.
export function save(id) {
  let { list } = sessions.get();
  const session = find(id);
  if (!session || session.messages.length === 0) return;
  while (list.length > MAX_SESSIONS) list = forgetOldest(list, id);
  let full = false;
  while (!full && !write(PREFIX + id, JSON.stringify(session))) {
    const fewer = forgetOldest(list, id);
    full = fewer === null;
    list = fewer ?? list;
  }
  sessions.set((old) => ({ ...old, list, full }));
}

export function find(id) {
  const { list, current } = sessions.get();
  return current.id === id ? current : list.find((session) => session.id === id);
}

// change: session → members to replace. Not yet written: see save.
export function update(id, change) {
  sessions.set((state) => {
    const session = state.current.id === id ? state.current : state.list.find((one) => one.id === id);
    if (!session) return state;
    const next = { ...session, ...change(session) };
    return { ...state, current: state.current.id === id ? next : state.current, list: keep(state.list, next) };
  });
}

export function open(id) {
  const session = find(id);
  if (!session) return;
  write(CURRENT, id); // without room the next visit begins with the latest chat
  sessions.set((state) => ({ ...state, current: session }));
}

export function startNew() {
  localStorage.removeItem(CURRENT);
  sessions.set((state) => ({ ...state, current: state.current.messages.length ? blank() : state.current }));
}

export function remove(id) {
  localStorage.removeItem(PREFIX + id);
  sessions.set((state) => {
    const list = state.list.filter((session) => session.id !== id);
    return { ...state, list, current: state.current.id === id ? (list[0] ?? blank()) : state.current };
  });
}

export function setParams(id, params) {
  update(id, (session) => ({ params: { ...session.params, ...params } }));
  remember(id);
}
export function setTools(id, tools) {
  update(id, (session) => ({ tools: { ...session.tools, ...tools } }));
  remember(id);
}
function remember(id) {
  const { params, tools } = find(id);
  save(id); // makes room
  write(DEFAULTS, JSON.stringify({ params, tools }));
}

export const titleOf = (session) => session.title || 'New chat';

// What `messages` of the API would hold, and how it was made.
export function exportJson(session, model) {
  return JSON.stringify({ format: 'ballast-chat-1', model, ...session, title: titleOf(session) }, null, 2);
}
