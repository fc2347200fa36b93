import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { bytes } from './format.js';

const OWNERS = ['weights', 'kv', 'activations', 'experts', 'runtime'];

function Memory({ memory }) {
  const budget = memory.budget_bytes || memory.used_bytes || 1;
  return (
    <section aria-label="Memory">
      <h2>Memory</h2>
      <p>
        <strong>{bytes(memory.used_bytes)}</strong> of {bytes(memory.budget_bytes)} used
      </p>
      <div class="bar" role="img" aria-label={`${Math.round((100 * memory.used_bytes) / budget)} % of the budget`}>
        <svg viewBox="0 0 100 6" preserveAspectRatio="none">
          {OWNERS.reduce(
            ({ at, parts }, owner) => {
              const width = Math.min((100 * (memory.owners[owner] ?? 0)) / budget, 100 - at);
              parts.push(<rect class={owner} x={at} y="0" width={width} height="6" />);
              return { at: at + width, parts };
            },
            { at: 0, parts: [] },
          ).parts}
        </svg>
      </div>
      <dl>
        {OWNERS.filter((owner) => memory.owners[owner]).map((owner) => (
          <div key={owner}>
            <dt>
              <span class={`swatch ${owner}`} /> {owner}
            </dt>
            <dd>{bytes(memory.owners[owner])}</dd>
          </div>
        ))}
        <div>
          <dt>resident</dt>
          <dd>{bytes(memory.resident_bytes)}</dd>
        </div>
      </dl>
    </section>
  );
}

function SpeedChart({ history, theme }) {
  const box = useRef(null);
  const plot = useRef(null);
  const latest = useRef(history);
  latest.current = history;

  useEffect(() => {
    const style = getComputedStyle(box.current);
    const ink = style.getPropertyValue('--faint').trim();
    const axis = { stroke: ink, grid: { stroke: style.getPropertyValue('--line').trim(), width: 1 } };
    const options = {
      width: box.current.clientWidth || 240,
      height: 120,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(max || 0, 10)] } },
      axes: [
        { ...axis, size: 24, values: (_, ticks) => ticks.map((tick) => `${tick} s`) },
        { ...axis, size: 40 },
      ],
      series: [{}, { stroke: style.getPropertyValue('--accent').trim(), width: 2, points: { show: false } }],
    };
    plot.current = new uPlot(options, latest.current, box.current);
    const resize = new ResizeObserver(() =>
      plot.current.setSize({ width: box.current.clientWidth, height: 120 }),
    );
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      plot.current.destroy();
    };
  }, [theme]);

  useEffect(() => plot.current?.setData(history), [history]);
  return <div ref={box} class="chart" role="img" aria-label="Tokens a second over the last two minutes" />;
}

export function Panel({ memory, history, theme }) {
  if (!memory) return null;
  return (
    <aside class="panel" aria-label="Server">
      <Memory memory={memory} />
      <section aria-label="Speed">
        <h2>Speed</h2>
        <p>
          <strong>{memory.decode_tokens_per_second.toFixed(1)}</strong> tokens/s · {memory.requests.running} running,{' '}
          {memory.requests.queued} waiting
        </p>
        <SpeedChart history={history} theme={theme} />
      </section>
    </aside>
  );
}
