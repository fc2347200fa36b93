export function bytes(count) {
  if (!count) return '0';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  const value = count / 2 ** (10 * power);
  return `${value < 10 && power > 0 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}

export function replyStats({ usage, timings, finish }) {
  const parts = [];
  if (timings?.predicted_per_second > 0) {
    parts.push(`${timings.predicted_per_second.toFixed(1)} tokens/s`);
  }
  if (usage) {
    parts.push(`${usage.completion_tokens} tokens`);
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    parts.push(`prompt ${usage.prompt_tokens}${cached ? `, ${cached} from cache` : ''}`);
  }
  if (timings) parts.push(`first token after ${Math.round(timings.queue_ms + timings.prompt_ms)} ms`);
  if (finish === 'length') parts.push('stopped at the token limit');
  return parts.join(' · ');
}
