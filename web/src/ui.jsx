// Small parts that several pages use.
import { useEffect, useRef } from 'preact/hooks';

const PATHS = {
  plus: 'M8 3v10M3 8h10',
  edit: 'M10.5 3.5l2 2L6 12l-2.7.7L4 10z',
  retry: 'M12.5 8a4.5 4.5 0 1 1-1.4-3.3M12.5 2.5v3h-3',
  copy: 'M5.5 5.5h7v7h-7zM10.5 5.5v-2h-7v7h2',
  trash: 'M3.5 4.5h9M6.5 4.5v-1h3v1M5 4.5l.5 8h5l.5-8',
  download: 'M8 3v7M5 7.5l3 3 3-3M3.5 12.5h9',
  sliders: 'M2.5 5h5M11.5 5h2M2.5 11h2M8.5 11h5M7.5 5a2 2 0 1 0 4 0 2 2 0 1 0-4 0M4.5 11a2 2 0 1 0 4 0 2 2 0 1 0-4 0',
  list: 'M3 4.5h10M3 8h10M3 11.5h10',
  close: 'M4 4l8 8M12 4l-8 8',
  sun: 'M8 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 2v1M8 13v1M2 8h1M13 8h1M3.8 3.800l.7.7M11.5 11.5l.7.7M3.8 12.200l.7-.7M11.5 4.5l.7-.7',
  moon: 'M12.5 9.5A5 5 0 0 1 6.5 3.5a5 5 0 1 0 6 6z',
  key: 'M7.5 5.5a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0zM6.8 7.3L12.5 13M10 10.5l2-2M11.5 12l1-1',
  send: 'M8 13V3.5M4 7l4-4 4 4',
  stop: 'M4.5 4.5h7v7h-7z',
  tool: 'M9.8 3.200a3 3 0 0 0-3.700 3.900L3 10.200 5.8 13l3.100-3.100a3 3 0 0 0 3.900-3.700L11 8 8.8 7.200 8 5z',
};

export function Icon({ name }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function IconButton({ icon, label, class: extra = '', ...rest }) {
  return (
    <button type="button" class={`iconButton ${extra}`} aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

// A modal dialog: focus stays inside, Escape closes.
export function Modal({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.showModal();
  }, []);
  return (
    <dialog
      ref={box}
      class="modal"
      aria-labelledby="modalTitle"
      onCancel={(event) => {
        event.preventDefault();
        event.stopPropagation();
        onClose();
      }}
    >
      <h2 id="modalTitle">{title}</h2>
      {children}
    </dialog>
  );
}

export function Fact({ label, value, note }) {
  return (
    <div class="fact">
      <dt>{label}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

// Parts of a whole: [{name, className, value}].
export function StackedBar({ label, parts, whole }) {
  let at = 0;
  return (
    <svg class="stacked" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label={label}>
      {parts.map(({ name, value }) => {
        const width = Math.max(0, Math.min((1000 * value) / (whole || 1), 1000 - at));
        const x = at;
        at += width;
        return <rect key={name} class={`fill-${name}`} x={x} y="0" width={Math.max(width - 2, 0)} height="20" />;
      })}
    </svg>
  );
}

export function Notice({ state, what }) {
  if (state === 'live') return null;
  const text = {
    waiting: `Reading ${what}…`,
    lost: 'The server is not reached. Trying again.',
    refused: `This key may not read ${what}.`,
  }[state];
  return (
    <p class={`notice ${state}`} role="status">
      {text}
    </p>
  );
}
