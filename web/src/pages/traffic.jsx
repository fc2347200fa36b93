import { useEffect, useRef, useState } from 'preact/hooks';
import { Chart } from '../chart.jsx';
import { cancelRequest, getJson } from '../lib/api.js';
import { count, seconds } from '../lib/format.js';
import { traffic } from '../lib/live.js';
import { useStore } from '../lib/store.js';
import { Fact, Notice } from '../ui.jsx';

const POLL_MS = 1000;

// The open requests while this page is seen. `refresh` reads them at once.
function useRequests() {
  const [state, setState] = useState({ list: null, error: '' });
  const read = useRef(null);
  useEffect(() => {
    let timer;
    let gone = false;
    read.current = async () => {
      try {
        const { data } = await getJson('/v1/requests');
        if (!gone) setState({ list: data, error: '' });
      } catch (error) {
        if (!gone) setState((old) => ({ ...old, error: error.message }));
      }
    };
    const turn = async () => {
      if (!document.hidden) await read.current();
      if (!gone) timer = setTimeout(turn, POLL_MS);
    };
    turn();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, []);
  return { ...state, refresh: () => read.current() };
}

function Progress({ request }) {
  const whole = request.state === 'decode' ? request.max_tokens : request.prompt_tokens;
  const done = request.state === 'decode' ? request.generated_tokens : request.prompt_tokens_done;
  if (request.state === 'queued' || !whole) return null;
  return <progress max={whole * (request.state === 'decode' ? request.choices : 1)} value={done} aria-label={`${request.state} progress`} />;
}

function Requests() {
  const { list, error, refresh } = useRequests();
  const [said, setSaid] = useState('');
  const cancel = async (request) => {
    try {
      await cancelRequest(request.id);
      setSaid(`Cancelled ${request.id}.`);
    } catch (failure) {
      setSaid(failure.code === 'request_not_found' ? `${request.id} had ended already.` : failure.message);
    }
    refresh();
  };
  const tenants = list?.some(({ tenant }) => tenant);
  return (
    <section class="card" aria-labelledby="requestsTitle">
      <div class="cardHead">
        <h2 id="requestsTitle">Open requests</h2>
        <p class="aside" role="status">
          {said}
        </p>
      </div>
      {error && <p class="notice lost">{error}</p>}
      {list?.length === 0 && <p class="muted">Nothing is being answered right now.</p>}
      {list?.length > 0 && (
        <div class="scroll openRequests" tabIndex={0} role="region" aria-label="Open requests">
          <table class="wide requests">
            <caption class="hidden">Open requests, oldest first</caption>
            <thead>
              <tr>
                <th scope="col">Request</th>
                <th scope="col">State</th>
                {tenants && <th scope="col">Tenant</th>}
                <th scope="col" class="number">Prompt</th>
                <th scope="col" class="number">Generated</th>
                <th scope="col" class="number">Age</th>
                <th scope="col">
                  <span class="hidden">Action</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {list.map((request) => (
                <tr key={request.id} data-request={request.id}>
                  <th scope="row">
                    <code>{request.id}</code>
                    <small>{request.route}</small>
                  </th>
                  <td>
                    <span class={`badge ${request.state}`}>{request.state}</span>
                    <Progress request={request} />
                  </td>
                  {tenants && <td>{request.tenant}</td>}
                  <td class="number">{count(request.prompt_tokens)}</td>
                  <td class="number">
                    {count(request.generated_tokens)}
                    {request.max_tokens && <small>of {count(request.max_tokens * request.choices)}</small>}
                  </td>
                  <td class="number">{seconds(request.age_ms / 1e3)}</td>
                  <td class="number">
                    <button type="button" class="small danger" aria-label={`Cancel ${request.id}`} onClick={() => cancel(request)}>
                      Cancel
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

const whole = (value) => (value >= 10 ? count(value) : (Math.round(value * 10) / 10).toString());

export function TrafficPage() {
  const { state, now, history } = useStore(traffic);
  const last = history.at(-1);
  return (
    <div class="page">
      <div class="pageHead">
        <h1>Traffic</h1>
        <p>Latencies look back half a minute; rates are those of the last two seconds.</p>
      </div>
      <Notice state={state} what="the metrics" />
      {now && (
        <dl class="facts">
          <Fact label="Running" value={count(now.running)} note={`${count(now.queued)} waiting`} />
          <Fact label="Output" value={`${whole(last.generated)} tok/s`} note={`${count(now.generated)} in all`} />
          <Fact label="First token, median" value={seconds(last.ttft50)} note={`95 %: ${seconds(last.ttft95)}`} />
          <Fact label="Between tokens, median" value={seconds(last.itl50)} note={`95 %: ${seconds(last.itl95)}`} />
          <Fact label="Finished" value={count(now.finished)} note={`${count(now.cancelled)} cancelled, ${count(now.rejected)} refused`} />
        </dl>
      )}
      <Requests />
      {now && (
        <div class="charts">
          <Chart
            title="Time to first token"
            points={history}
            least={0.05}
            format={seconds}
            series={[
              { label: 'median', color: '--data-weights', key: (point) => point.ttft50 },
              { label: '95 %', color: '--data-kv', dash: [6, 4], key: (point) => point.ttft95 },
            ]}
          />
          <Chart
            title="Time between tokens"
            points={history}
            least={0.02}
            format={seconds}
            series={[
              { label: 'median', color: '--data-weights', key: (point) => point.itl50 },
              { label: '95 %', color: '--data-kv', dash: [6, 4], key: (point) => point.itl95 },
            ]}
          />
          <Chart
            title="Tokens a second"
            points={history}
            least={10}
            format={whole}
            series={[
              { label: 'output', color: '--data-weights', key: (point) => point.generated },
              { label: 'prompt', color: '--data-experts', dash: [6, 4], key: (point) => point.prompt },
            ]}
          />
          <Chart
            title="Queue and batch"
            points={history}
            least={2}
            format={whole}
            series={[
              { label: 'running', color: '--data-weights', key: (point) => point.running },
              { label: 'waiting', color: '--data-kv', dash: [6, 4], key: (point) => point.queued },
              { label: 'batch', color: '--data-activations', dash: [2, 3], key: (point) => point.batch },
            ]}
          />
        </div>
      )}
    </div>
  );
}
