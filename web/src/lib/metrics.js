// Prometheus text, and what the charts make of two readings of it.

// {name: [{labels, value}]}; labels are plain objects.
export function parseMetrics(text) {
  const families = {};
  for (const line of text.split('\n')) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    (families[match[1]] ??= []).push({ labels, value: Number(match[3].replace('Inf', 'Infinity')) });
  }
  return families;
}

export const metric = (families, name) => families[name]?.[0]?.value ?? 0;

export function histogram(families, name) {
  const buckets = (families[`${name}_bucket`] ?? [])
    .map(({ labels, value }) => ({ bound: Number(labels.le.replace('+Inf', 'Infinity')), value }))
    .sort((a, b) => a.bound - b.bound);
  return { buckets, sum: metric(families, `${name}_sum`), count: metric(families, `${name}_count`) };
}

// What came between two readings.
export function difference(now, then) {
  if (!then || then.count > now.count) return now;
  return {
    sum: now.sum - then.sum,
    count: now.count - then.count,
    buckets: now.buckets.map(({ bound, value }, i) => ({ bound, value: value - (then.buckets[i]?.value ?? 0) })),
  };
}

// Between the bucket's bounds in proportion; null without observations.
export function quantile({ buckets, count }, q) {
  if (!count) return null;
  const rank = q * count;
  let below = 0;
  let lower = 0;
  for (const { bound, value } of buckets) {
    if (value >= rank && value > below) {
      return bound === Infinity ? lower : lower + ((bound - lower) * (rank - below)) / (value - below);
    }
    below = value;
    if (bound !== Infinity) lower = bound;
  }
  return lower;
}

export const mean = ({ sum, count }) => (count ? sum / count : null);
