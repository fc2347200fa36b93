// Writes dist/source.sha256: one hash over the console's sources, which a test compares with theirs.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const sha256 = (data) => createHash('sha256').update(data).digest('hex');

function* walk(path) {
  if (!statSync(path).isDirectory()) {
    yield path;
    return;
  }
  for (const name of readdirSync(path)) yield* walk(join(path, name));
}

const roots = ['index.html', 'package.json', 'package-lock.json', 'vite.config.js', 'src', 'public'];
const files = roots.flatMap((root) => [...walk(root)]).sort();
const lines = files.map((file) => `${sha256(readFileSync(file))}  ${file}\n`);
writeFileSync('dist/source.sha256', `${sha256(lines.join(''))}\n`);
