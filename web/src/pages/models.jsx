import { bytes, count, percent, short } from '../lib/format.js';
import { models } from '../lib/live.js';
import { useStore } from '../lib/store.js';
import { Fact, StackedBar } from '../ui.jsx';

const TYPE_FILLS = ['weights', 'kv', 'activations', 'experts', 'runtime'];

function Facts({ title, rows }) {
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <dl class="pairs">
        {rows.map(([label, value, about]) => (
          <div key={label}>
            <dt>
              {label}
              {about && <small>{about}</small>}
            </dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Types({ types, size }) {
  return (
    <section class="card" aria-labelledby="typesTitle">
      <div class="cardHead">
        <h2 id="typesTitle">Weight types</h2>
        <p class="aside">
          <b>{bytes(size)}</b> in the file
        </p>
      </div>
      <StackedBar
        label="Share of the weight types; the table below has the figures"
        parts={types.map(({ bytes: value }, i) => ({ name: TYPE_FILLS[i % TYPE_FILLS.length], value }))}
        whole={size}
      />
      <div class="scroll" tabIndex={0} role="region" aria-label="Weight types">
        <table class="wide">
          <caption class="hidden">Weight types</caption>
          <thead>
            <tr>
              <th scope="col">Type</th>
              <th scope="col" class="number">Tensors</th>
              <th scope="col" class="number">Bytes</th>
              <th scope="col" class="number">Share</th>
            </tr>
          </thead>
          <tbody>
            {types.map(({ type, tensors, bytes: size_of_type }, i) => (
              <tr key={type}>
                <th scope="row">
                  <span class={`swatch fill-${TYPE_FILLS[i % TYPE_FILLS.length]}`} />
                  {type}
                </th>
                <td class="number">{count(tensors)}</td>
                <td class="number">{bytes(size_of_type)}</td>
                <td class="number">{percent(size_of_type, size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Model({ model }) {
  const { meta } = model;
  return (
    <article class="model" aria-label={model.id}>
      <div class="modelHead">
        <h2>{model.id}</h2>
        <span class="badge decode">loaded</span>
        <p class="muted">since {new Date(model.created * 1000).toLocaleString('en-GB')}</p>
      </div>
      <dl class="facts">
        <Fact label="Parameters" value={short(meta.n_params)} note={meta.architecture} />
        <Fact label="In memory" value={bytes(meta.resident_size)} note={`${bytes(meta.size)} in the file`} />
        <Fact label="Context" value={count(meta.n_ctx)} note={`trained with ${count(meta.n_ctx_train)}`} />
        <Fact label="Main type" value={meta.weight_types[0]?.type ?? '–'} note={`${((8 * meta.size) / meta.n_params).toFixed(2)} bits a weight`} />
      </dl>
      <div class="halves">
        <Facts
          title="Model"
          rows={[
            ['Architecture', meta.architecture],
            ['Layers', count(meta.n_layer)],
            ['Hidden size', count(meta.n_embd)],
            ['Vocabulary', `${count(meta.n_vocab)} tokens`],
            ['Context', `${count(meta.n_ctx)} tokens`, 'of one request'],
          ]}
        />
        <Facts
          title="How it runs"
          rows={[
            ['Instruction set', meta.isa, 'all give the same bits'],
            ['Threads', count(meta.threads)],
            ['KV type', meta.kv_dtype],
            ['Activations', meta.activations],
            ['Weight level', meta.level],
            ['Decode backend', meta.decode_backend],
            ['Sequences at a time', count(meta.max_sequences)],
          ]}
        />
      </div>
      <Types types={meta.weight_types} size={meta.size} />
    </article>
  );
}

export function ModelsPage() {
  const { data, error } = useStore(models);
  return (
    <div class="page">
      <div class="pageHead">
        <h1>Models</h1>
        <p>What is loaded, and every setting that decides what is computed.</p>
      </div>
      {error && (
        <p class="notice lost" role="alert">
          {error}
        </p>
      )}
      {data.map((model) => (
        <Model key={model.id} model={model} />
      ))}
    </div>
  );
}
