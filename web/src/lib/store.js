// A value that components can watch. State that outlives a page's view lives in such stores.
import { useEffect, useState } from 'preact/hooks';

export function createStore(initial) {
  let value = initial;
  const watchers = new Set();
  return {
    get: () => value,
    set(next) {
      value = typeof next === 'function' ? next(value) : next;
      for (const watcher of watchers) watcher(value);
    },
    subscribe(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

export function useStore(store) {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get()); // it may have changed before the effect ran
    return store.subscribe(setValue);
  }, [store]);
  return value;
}
