// Light, dark, or as the system is.
import { createStore } from './lib/store.js';

const KEY = 'ballast.theme';
const system = matchMedia('(prefers-color-scheme: dark)');
let chosen = localStorage.getItem(KEY); // null: as the system is

const shade = () => chosen ?? (system.matches ? 'dark' : 'light');
export const theme = createStore(shade());

function apply() {
  document.documentElement.dataset.theme = shade();
  theme.set(shade());
}

export function toggleTheme() {
  chosen = shade() === 'dark' ? 'light' : 'dark';
  localStorage.setItem(KEY, chosen);
  apply();
}

system.addEventListener('change', apply);
apply();
