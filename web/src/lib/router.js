// The page is the part after #: links work, the back button works, and the server sees nothing.
import { createStore } from './store.js';

export const PAGES = ['chat', 'memory', 'traffic', 'models'];

function current() {
  const name = location.hash.replace(/^#\/?/, '');
  return PAGES.includes(name) ? name : PAGES[0];
}

export const page = createStore(current());
addEventListener('hashchange', () => page.set(current()));
