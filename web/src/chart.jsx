// A line chart over time, and the same figures as a table for who cannot see it.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useStore } from './lib/store.js';
import { theme } from './theme.js';

const HEIGHT = 168;
const BINARY = Array.from({ length: 41 }, (_, power) => 2 ** power); // ticks of bytes
const SPAN_S = 120; // at least this much of the time axis
const TABLE_ROWS = 20;

// series: [{label, color: CSS variable, key: point → number|null, fill?}]; stacked: each adds to the last.
function dataOf(points, series, stacked) {
  const columns = series.map(({ key }) => points.map(key));
  if (stacked) {
    for (let i = 1; i < columns.length; ++i) columns[i] = columns[i].map((value, j) => value + columns[i - 1][j]);
  }
  return [points.map(({ at }) => at), ...columns];
}

function optionsFor(box, { series, format, stacked, least, binary }) {
  const style = getComputedStyle(box);
  const css = (name) => style.getPropertyValue(name).trim();
  const font = `11px ${css('font-family')}`;
  const axis = {
    stroke: css('--faint'),
    font,
    grid: { stroke: css('--grid'), width: 1 },
    ticks: { show: false },
  };
  const clock = (at) => new Date(at * 1000).toLocaleTimeString('en-GB');
  return {
    width: box.clientWidth || 300,
    height: HEIGHT,
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { time: false, range: (_, __, max) => [Math.min(max - SPAN_S, max), max] },
      y: { range: (_, __, max) => [0, Math.max((max || 0) * 1.08, least)] },
    },
    axes: [
      { ...axis, size: 26, space: 80, grid: { show: false }, values: (_, ticks) => ticks.map(clock) },
      { ...axis, size: 60, space: 36, ...(binary && { incrs: BINARY }), values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...series.map(({ label, color, dash }) => ({
        label,
        stroke: css(color),
        width: stacked ? 1 : 1.75,
        dash,
        spanGaps: false,
        fill: stacked ? css(color) : undefined,
        points: { show: false },
      })),
    ],
    // Every stacked area reaches down to the one below it.
    bands: stacked ? series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [],
  };
}

export function Chart({ title, points, series, format, stacked = false, binary = false, least = 1, note }) {
  const box = useRef(null);
  const plot = useRef(null);
  const shade = useStore(theme);
  const data = dataOf(points, series, stacked);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    plot.current = new uPlot(optionsFor(box.current, { series, format, stacked, least, binary }), latest.current, box.current);
    const resize = new ResizeObserver(() => plot.current.setSize({ width: box.current.clientWidth, height: HEIGHT }));
    resize.observe(box.current);
    return () => {
      resize.disconnect();
      plot.current.destroy();
    };
  }, [shade]);
  useEffect(() => plot.current.setData(data), [points]);

  const last = points.at(-1);
  const show = (value) => (value === null || value === undefined ? '–' : format(value));
  return (
    <figure class="chart card">
      <figcaption>
        <h2>{title}</h2>
        <ul class="legend">
          {series.map(({ label, color, key, dash }) => (
            <li key={label}>
              <svg class="key" viewBox="0 0 14 4" aria-hidden="true">
                <line x1="0" y1="2" x2="14" y2="2" stroke={`var(${color})`} stroke-width="3" stroke-dasharray={dash ? '4 3' : null} />
              </svg>
              {label} <b>{last ? show(key(last)) : '–'}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
      {note && <p class="hint">{note}</p>}
      <details class="figures">
        <summary>Show as a table</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: figures`}>
          <table>
            <caption class="hidden">{title}, latest first</caption>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {series.map(({ label }) => (
                  <th key={label} scope="col" class="number">
                    {label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {points
                .slice(-TABLE_ROWS)
                .reverse()
                .map((point) => (
                  <tr key={point.at}>
                    <th scope="row">{new Date(point.at * 1000).toLocaleTimeString('en-GB')}</th>
                    {series.map(({ label, key }) => (
                      <td key={label} class="number">
                        {show(key(point))}
                      </td>
                    ))}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
