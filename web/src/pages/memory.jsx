import { Chart } from '../chart.jsx';
import { bytes, percent } from '../lib/format.js';
import { memory, OWNERS } from '../lib/live.js';
import { useStore } from '../lib/store.js';
import { Fact, Notice, StackedBar } from '../ui.jsx';

const ABOUT = {
  weights: 'the model, packed for this CPU',
  kv: 'the cache of running and remembered sequences',
  activations: 'buffers of a step, position tables',
  experts: 'experts of mixture models',
  runtime: 'program, tokenizer, connections',
};
const MIB = 1 << 20;

function Ledger({ now }) {
  const budget = now.budget_bytes || now.used_bytes;
  const owners = OWNERS.map((name) => ({ name, value: now.owners[name] ?? 0 }));
  const free = Math.max(0, budget - now.used_bytes);
  return (
    <section class="card" aria-labelledby="ledgerTitle">
      <div class="cardHead">
        <h2 id="ledgerTitle">Who owns which bytes</h2>
        <p class="aside">
          <b>{bytes(now.used_bytes)}</b> of {bytes(budget)}
        </p>
      </div>
      <div class="bars">
        <span>Used</span>
        <StackedBar label="Shares of what is used; the table below has the figures" parts={owners} whole={now.used_bytes} />
        <span>Budget</span>
        <StackedBar label={`${percent(now.used_bytes, budget)} of the budget is used`} parts={owners} whole={budget} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Memory by owner">
        <table class="wide">
          <caption class="hidden">Memory by owner</caption>
          <thead>
            <tr>
              <th scope="col">Owner</th>
              <th scope="col" class="optional">Holds</th>
              <th scope="col" class="number">Bytes</th>
              <th scope="col" class="number">Share</th>
            </tr>
          </thead>
          <tbody>
            {owners.map(({ name, value }) => (
              <tr key={name} data-owner={name}>
                <th scope="row">
                  <span class={`swatch fill-${name}`} />
                  {name}
                </th>
                <td class="optional muted">{ABOUT[name]}</td>
                <td class="number">{bytes(value)}</td>
                <td class="number">{percent(value, budget)}</td>
              </tr>
            ))}
            <tr>
              <th scope="row">
                <span class="swatch fill-free" />
                free
              </th>
              <td class="optional muted">left of the budget</td>
              <td class="number">{bytes(free)}</td>
              <td class="number">{percent(free, budget)}</td>
            </tr>
          </tbody>
        </table>
      </div>
    </section>
  );
}

export function MemoryPage() {
  const { state, now, history } = useStore(memory);
  return (
    <div class="page">
      <div class="pageHead">
        <h1>Memory</h1>
        <p>One budget holds weights, cache and buffers. Each second the ledger says who has what.</p>
      </div>
      <Notice state={state} what="the memory ledger" />
      {now && (
        <>
          <dl class="facts">
            <Fact label="Used" value={bytes(now.used_bytes)} note={`${percent(now.used_bytes, now.budget_bytes)} of the budget`} />
            <Fact label="Budget" value={bytes(now.budget_bytes)} note="--memory" />
            <Fact label="KV in use" value={bytes(now.kv.used_bytes)} note={`of ${bytes(now.kv.capacity_bytes)}`} />
            <Fact label="Resident" value={bytes(now.resident_bytes)} note="as the system counts" />
          </dl>
          <Ledger now={now} />
          <div class="charts">
            <Chart
              title="Ledger"
              points={history}
              stacked
              binary
              least={16 * MIB}
              format={bytes}
              series={OWNERS.map((name) => ({ label: name, color: `--data-${name}`, key: (point) => point.owners[name] ?? 0 }))}
            />
            <Chart
              title="KV cache in use"
              points={history}
              binary
              least={2 * MIB}
              format={bytes}
              series={[{ label: 'in use', color: '--data-kv', key: (point) => point.kv }]}
            />
          </div>
        </>
      )}
    </div>
  );
}
