// Numbers as people read them.

export function bytes(count) {
  if (!count) return '0 B';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  const value = count / 2 ** (10 * power);
  const digits = power === 0 || value >= 100 ? 0 : value < 10 ? 2 : 1;
  return `${value.toFixed(digits).replace(/\.0+$/, '')} ${units[power]}`;
}

export function count(value) {
  return Math.round(value ?? 0).toLocaleString('en-US');
}

// 135M, 1.5B: as models are named.
export function short(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(value < 1e10 ? 2 : 1)} B`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(0)} M`;
  if (value >= 1e3) return `${(value / 1e3).toFixed(0)} k`;
  return String(value);
}

export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value === 0) return '0';
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 100) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

export function percent(part, whole) {
  if (!whole) return '0 %';
  const value = (100 * part) / whole;
  return `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} %`;
}

// What stands under a reply: [{label, value}].
export function replyStats({ usage, timings, finish }) {
  const parts = [];
  if (timings?.predicted_per_second > 0) {
    parts.push({ value: `${timings.predicted_per_second.toFixed(1)} tok/s` });
  }
  if (usage) {
    parts.push({ value: `${count(usage.completion_tokens)} tokens` });
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    parts.push({ label: 'prompt', value: `${count(usage.prompt_tokens)}${cached ? `, ${count(cached)} cached` : ''}` });
  }
  if (timings) parts.push({ label: 'first token', value: seconds((timings.queue_ms + timings.prompt_ms) / 1e3) });
  if (finish === 'length') parts.push({ value: 'reached the token limit' });
  return parts;
}
