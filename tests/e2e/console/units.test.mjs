// The console's parts that need no browser. BALLAST_WEB is the folder of its source.
import assert from 'node:assert/strict';
import { test } from 'node:test';

const from = (path) => import(`${process.env.BALLAST_WEB}/src/${path}`);
const { parseMarkdown, safeUrl } = await from('lib/markdown.js');
const { calculate, clock, parseCustomTools, runDemoTool } = await from('chat/demo_tools.js');
const { difference, histogram, parseMetrics, quantile } = await from('lib/metrics.js');
const { bytes, seconds } = await from('lib/format.js');

test('the calculator keeps precedence and refuses what is no arithmetic', () => {
  const values = { '1+2*3': 7, '(1+2)*3': 9, '2^3^2': 512, '-2^2': -4, '10-4-3': 3, '7 % 4': 3, 'sqrt(16)/2': 2, '2*-3': -6, '1.5e2': 150, '2**3': 8, '6 × 7': 42 };
  for (const [text, value] of Object.entries(values)) assert.equal(calculate(text), value, text);
  for (const text of ['', '1+', '(1', '1 2', 'alert(1)', 'constructor', '__proto__', 'a.b', '"x"', `${'('.repeat(60)}1`, '9'.repeat(501)]) {
    assert.throws(() => calculate(text), text);
  }
  assert.deepEqual(JSON.parse(runDemoTool('calculator', '{"expression": "2+2"}')), { result: 4 });
  assert.match(runDemoTool('calculator', '{"expression": "x"}'), /error/);
  assert.match(runDemoTool('calculator', 'no json'), /error/);
});

test('the clock knows time zones', () => {
  const told = clock('Asia/Tokyo', new Date('2026-01-02T03:04:05Z'));
  assert.equal(told.utc, '2026-01-02T03:04:05.000Z');
  assert.match(told.local, /12:04:05/);
  assert.match(runDemoTool('clock', '{"time_zone": "Nowhere/Land"}'), /error/);
});

test('tools are read in both spellings', () => {
  const inner = { name: 'f', parameters: {} };
  for (const text of [JSON.stringify(inner), JSON.stringify([inner]), JSON.stringify([{ type: 'function', function: inner }])]) {
    assert.deepEqual(parseCustomTools(text), [{ type: 'function', function: inner }]);
  }
  assert.deepEqual(parseCustomTools(' '), []);
  assert.throws(() => parseCustomTools('{'), /not JSON/);
  assert.throws(() => parseCustomTools('[{"x": 1}]'), /Tool 1 has no "name"/);
});

const types = (text) => parseMarkdown(text).map(({ type }) => type);

test('markdown blocks', () => {
  assert.deepEqual(types('# a\n\ntext\nmore\n\n---\n> q\n\n```js\ncode\n```\n1. x\n2. y'), ['heading', 'paragraph', 'rule', 'quote', 'code', 'list']);
  const [code] = parseMarkdown('```\nhalf');
  assert.deepEqual([code.text, code.open], ['half', true]);
  const [list] = parseMarkdown('- a\n  - b\n  - c\n- d');
  assert.deepEqual([list.items.length, list.items[0][1].items.length], [2, 2]);
  assert.equal(parseMarkdown('3. a\n4. b')[0].start, 3);
  const [loose] = parseMarkdown('1. a\n\n   more\n\n2. b');
  assert.deepEqual([loose.items.length, loose.items[0].length], [2, 2]);
  const [table] = parseMarkdown('| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |');
  assert.deepEqual([table.type, table.head.length, table.rows.length], ['table', 2, 2]);
  assert.deepEqual(parseMarkdown(''), []);
});

test('markdown within lines', () => {
  const inline = (text) => parseMarkdown(text)[0].children;
  assert.deepEqual(inline('**a** and *b*').map((node) => node.type ?? node), ['strong', ' and ', 'emphasis']);
  assert.deepEqual(inline('snake_case_name 2 * 3 * 4'), ['snake_case_name 2 * 3 * 4']);
  assert.deepEqual(inline('`a*b*`'), [{ type: 'codespan', text: 'a*b*' }]);
  assert.deepEqual(inline('\\*no\\*'), ['*no*']);
  assert.equal(inline('see https://a.example/x.')[1].url, 'https://a.example/x');
  assert.deepEqual(inline('<b>raw</b>'), ['<b>raw</b>']);
  assert.deepEqual(inline('[x](javascript:alert(1))'), ['[x](javascript:alert(1))']);
});

test('only addresses that cannot run anything become links', () => {
  for (const good of ['https://a.example/', 'http://a', 'mailto:a@b.example']) assert.equal(safeUrl(good), good);
  for (const bad of ['javascript:alert(1)', 'data:text/html,x', ' https://a', 'vbscript:x', '//a', 'file:///etc', 'https://a b']) assert.equal(safeUrl(bad), null);
});

test('no text makes markdown fail or take forever', () => {
  const pieces = ['*', '_', '`', '[', '](', ')', '\n', '- ', '> ', '|', '#', '```', '~~', 'a', ' ', '1. ', '---', '<', '\\', 'https://'];
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % n;
  for (let round = 0; round < 2000; ++round) {
    let text = '';
    for (let i = 0; i < 40; ++i) text += pieces[random(pieces.length)];
    assert.ok(Array.isArray(parseMarkdown(text)));
  }
  for (const piece of ['*a', '[', '**', '> ', '- ', '`', '_a ']) assert.ok(parseMarkdown(piece.repeat(5000)));
});

test('metrics become quantiles', () => {
  const text = (a, b, c) => `# HELP x\nx_bucket{le="0.1"} ${a}\nx_bucket{le="0.2"} ${b}\nx_bucket{le="+Inf"} ${c}\nx_sum 3\nx_count ${c}\ny{owner="kv \\"x\\""} 5\n`;
  const now = histogram(parseMetrics(text(10, 20, 20)), 'x');
  assert.equal(quantile(now, 0.5), 0.1);
  assert.ok(Math.abs(quantile(now, 0.75) - 0.15) < 1e-9);
  const lately = difference(now, histogram(parseMetrics(text(10, 10, 10)), 'x'));
  assert.ok(Math.abs(quantile(lately, 0.5) - 0.15) < 1e-9);
  assert.equal(quantile(difference(now, now), 0.5), null);
  assert.equal(quantile(histogram(parseMetrics(text(0, 0, 4)), 'x'), 0.5), 0.2);
  assert.equal(parseMetrics(text(1, 1, 1)).y[0].value, 5);
  assert.deepEqual(parseMetrics('z 1e+06\nw +Inf').z, [{ labels: {}, value: 1e6 }]);
});

test('numbers as people read them', () => {
  assert.deepEqual([0, 1023, 1024, 1536, 5 * 2 ** 30].map(bytes), ['0 B', '1023 B', '1 KiB', '1.50 KiB', '5 GiB']);
  assert.deepEqual([null, 0, 0.0042, 0.25, 3, 75].map(seconds), ['–', '0', '4.2 ms', '250 ms', '3.00 s', '75.0 s']);
});
