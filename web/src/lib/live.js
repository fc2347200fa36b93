// What the server tells about itself, read again and again while the console is seen: often for the
// page that shows it, else now and then, so that its history is there when it is opened.
import { ApiError, auth, getJson, getText } from './api.js';
import { difference, histogram, mean, metric, parseMetrics, quantile } from './metrics.js';
import { page } from './router.js';
import { createStore } from './store.js';

const MEMORY_MS = 1000;
const METRICS_MS = 2000;
const ELSEWHERE_MS = 5000; // for a page that is not shown
const HISTORY_S = 600;
const WINDOW_S = 30; // that a quantile looks back
const HISTOGRAMS = {
  ttft: 'ballast_engine_ttft_seconds',
  itl: 'ballast_engine_inter_token_seconds',
  queue: 'ballast_engine_queue_seconds',
  step: 'ballast_engine_step_seconds',
  rows: 'ballast_engine_decode_rows',
};

const now = () => Date.now() / 1000;
export const OWNERS = ['weights', 'kv', 'activations', 'experts', 'runtime'];

// `state`: waiting, live, lost, or refused (the key may not read it).
export const memory = createStore({ state: 'waiting', now: null, history: [] });
export const traffic = createStore({ state: 'waiting', now: null, history: [] });
export const models = createStore({ data: [], error: '' });

const recent = (history, point) => [...history.filter(({ at }) => point.at - at < HISTORY_S), point];

function stateOf(error) {
  return error instanceof ApiError && (error.status === 401 || error.status === 403) ? 'refused' : 'lost';
}

// Runs `read` now, when its page is opened and every `ms` while it is shown; a key that may not read
// is not tried again, another key is.
function poll(name, ms, read, store) {
  let refusedKey = null;
  let timer;
  let reading = false;
  const turn = async () => {
    if (reading) return;
    reading = true;
    clearTimeout(timer);
    const { key } = auth.get();
    if (!document.hidden && refusedKey !== key) {
      try {
        await read();
        refusedKey = null;
      } catch (error) {
        const state = stateOf(error);
        if (state === 'refused') refusedKey = key;
        store.set((old) => ({ ...old, state }));
      }
    }
    reading = false;
    timer = setTimeout(turn, page.get() === name ? ms : ELSEWHERE_MS);
  };
  turn();
  document.addEventListener('visibilitychange', () => !document.hidden && turn());
  page.subscribe((shown) => shown === name && turn());
  auth.subscribe(turn);
}

async function readMemory() {
  const json = await getJson('/v1/memory');
  const at = now();
  memory.set(({ history }) => ({
    state: 'live',
    now: json,
    history: recent(history, { at, owners: json.owners, resident: json.resident_bytes, kv: json.kv.used_bytes }),
  }));
}

const readings = []; // of the last WINDOW_S, raw

function summarize(reading) {
  const before = readings.at(-1);
  const oldest = readings[0];
  const span = before ? reading.at - before.at : 0;
  const rate = (name) => (span > 0 ? Math.max(0, reading[name] - before[name]) / span : 0);
  const lately = (name) => difference(reading[name], oldest?.[name]);
  const rows = before ? difference(reading.rows, before.rows) : { sum: 0, count: 0 };
  return {
    at: reading.at,
    running: reading.running,
    queued: reading.queued,
    batch: mean(rows) ?? 0,
    generated: rate('generated'),
    prompt: rate('prompt'),
    ttft50: quantile(lately('ttft'), 0.5),
    ttft95: quantile(lately('ttft'), 0.95),
    itl50: quantile(lately('itl'), 0.5),
    itl95: quantile(lately('itl'), 0.95),
  };
}

async function readMetrics() {
  const families = parseMetrics(await getText('/metrics'));
  const reading = {
    at: now(),
    running: metric(families, 'ballast_requests_running'),
    queued: metric(families, 'ballast_requests_queued'),
    generated: metric(families, 'ballast_generated_tokens_total'),
    prompt: metric(families, 'ballast_prompt_tokens_total'),
    finished: metric(families, 'ballast_requests_finished_total'),
    cancelled: metric(families, 'ballast_requests_cancelled_total'),
    rejected: metric(families, 'ballast_requests_rejected_total'),
    preempted: metric(families, 'ballast_preemptions_total'),
  };
  for (const [key, name] of Object.entries(HISTOGRAMS)) reading[key] = histogram(families, name);
  const point = summarize(reading);
  readings.push(reading);
  while (readings.length > 2 && reading.at - readings[0].at > WINDOW_S) readings.shift();
  traffic.set(({ history }) => ({ state: 'live', now: reading, history: recent(history, point) }));
}

async function readModels() {
  try {
    models.set({ data: (await getJson('/v1/models')).data, error: '' });
  } catch (error) {
    models.set((old) => ({ ...old, error: error.message }));
    if (!(error instanceof ApiError)) setTimeout(readModels, METRICS_MS);
  }
}

export function startLive() {
  poll('memory', MEMORY_MS, readMemory, memory);
  poll('traffic', METRICS_MS, readMetrics, traffic);
  readModels();
  let { key } = auth.get();
  auth.subscribe((next) => {
    if (next.key === key) return;
    key = next.key;
    readModels();
  });
}
