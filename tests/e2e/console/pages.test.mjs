// Memory, Traffic and Models in a real browser; and what holds for every page.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { finished, getJson, open, rewriteChats, say, until, url, useBrowser } from './browser.mjs';

useBrowser();
const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PAGES = ['chat', 'memory', 'traffic', 'models'];

// A request that goes on until it is cancelled.
function longRequest() {
  const controller = new AbortController();
  const body = { messages: [{ role: 'user', content: 'Tell a story.' }], stream: true, ignore_eos: true, max_tokens: 7900, temperature: 0 };
  const text = fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ model: '', ...body }),
    signal: controller.signal,
  }).then((reply) => reply.text());
  text.catch(() => {});
  return { text, abort: () => controller.abort() };
}

async function violations(page) {
  // The policy lets no script in; the test is allowed to.
  await page.evaluate(AXE);
  const { violations: found } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return found
    .filter(({ impact }) => ['serious', 'critical'].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join(' | ')}`);
}

test('the ledger changes while a request runs', async (t) => {
  const { page, trouble } = await open({ path: '/#/memory' });
  const kv = page.locator('tr[data-owner=kv] td.number').first();
  await kv.waitFor();
  assert.match(await page.locator('tr[data-owner=weights]').innerText(), /[1-9]/);
  if ((await getJson('/v1/models')).data[0].meta.architecture !== 'fake') {
    await until(async () => (await kv.innerText()) === '0 B', 'the cache is empty');
    const request = longRequest();
    await until(async () => (await kv.innerText()) !== '0 B', 'the cache fills');
    request.abort();
  } else t.diagnostic('the fake engine has a fixed ledger');
  await page.getByText('Show as a table').first().click();
  await page.getByRole('region', { name: 'Ledger: figures' }).locator('tbody tr').nth(1).waitFor();
  assert.equal(await page.locator('.plot canvas').count(), 2);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('Traffic shows a request and cancels it', async () => {
  const { page, trouble } = await open({ path: '/#/traffic' });
  await page.getByText('Nothing is being answered').waitFor();
  const request = longRequest();
  const row = page.locator('tr[data-request]');
  await row.getByText('decode').waitFor();
  const id = await row.getAttribute('data-request');
  assert.equal((await getJson('/v1/requests')).data[0].id, id);
  await page.getByRole('button', { name: `Cancel ${id}` }).click();
  await page.getByText(`Cancelled ${id}`).waitFor();
  await page.getByText('Nothing is being answered').waitFor();
  assert.match(await request.text, /"code":"cancelled"/);
  await until(async () => (await page.locator('.plot canvas').count()) === 4, 'four charts are drawn');
  assert.deepEqual(trouble, []);
  await page.close();
});

test('Models tells what is loaded', async () => {
  const { page, trouble } = await open({ path: '/#/models' });
  const [model] = (await getJson('/v1/models')).data;
  await page.getByRole('heading', { name: model.id }).waitFor();
  const text = await page.locator('.page').innerText();
  for (const fact of [model.meta.architecture, model.meta.isa, model.meta.kv_dtype, model.meta.weight_types[0].type, 'standard']) {
    assert.ok(text.includes(fact), fact);
  }
  assert.deepEqual(trouble, []);
  await page.close();
});

test('a key without the scope is told so, and the rest works', async () => {
  const denied = { status: 403, json: { error: { message: 'no scope', code: 'insufficient_scope' } } };
  const { page } = await open({
    path: '/#/memory',
    prepare: async (page) => {
      await page.route('**/v1/memory', (route) => route.fulfill(denied));
      await page.route('**/metrics', (route) => route.fulfill(denied));
    },
  });
  await page.getByText('This key may not read the memory ledger.').waitFor();
  await page.getByRole('link', { name: 'Traffic' }).click();
  await page.getByText('This key may not read the metrics.').waitFor();
  await page.getByText('Nothing is being answered').waitFor();
  await page.close();
});

test('no serious accessibility violations, light or dark; nothing is wider than a small screen', async () => {
  for (const colorScheme of ['light', 'dark']) {
    const { page, trouble } = await open({ colorScheme });
    await rewriteChats(page, { temperature: 0, max_tokens: 8 });
    await say(page, 'Hello');
    await finished(page);
    await page.getByRole('button', { name: 'Settings' }).click();
    await page.getByLabel('Temperature').waitFor();
    for (const name of PAGES) {
      await page.goto(`${url}/#/${name}`);
      await page.locator(name === 'chat' ? '.talk' : '.card').first().waitFor();
      assert.deepEqual(await violations(page), [], `${name}, ${colorScheme}`);
    }
    if (colorScheme === 'light') {
      await page.setViewportSize({ width: 360, height: 640 });
      for (const name of PAGES) {
        await page.goto(`${url}/#/${name}`);
        await page.locator(name === 'chat' ? '.talk' : '.card').first().waitFor();
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360, name);
      }
      assert.deepEqual(await violations(page), [], 'small');
    }
    assert.deepEqual(trouble, []);
    await page.close();
  }
});

test('is dark where the system is, and on demand for good', async () => {
  const { page } = await open({ colorScheme: 'dark' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.getByRole('button', { name: 'Light' }).click();
  await until(async () => (await ground()) !== dark, 'the page is light');
  await page.reload();
  await page.getByRole('button', { name: 'Dark' }).waitFor();
  assert.notEqual(await ground(), dark);
  await page.close();
});

test('every control is reached by Tab, and the lists open and close on a small screen', async () => {
  const { page } = await open({ viewport: { width: 400, height: 700 } });
  await page.locator('#draft').waitFor();
  await page.evaluate(() => document.activeElement.blur());
  const seen = [];
  for (let i = 0; i < 20; ++i) {
    await page.keyboard.press('Tab');
    seen.push(await page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.id ?? ''));
    if (seen.at(-1) === '') seen[seen.length - 1] = await page.evaluate(() => document.activeElement.textContent.trim());
  }
  for (const name of ['Skip to the content', 'Memory', 'Traffic', 'Models', 'Chats', 'Settings', 'Messages', 'draft']) {
    assert.ok(seen.includes(name), `${name} in ${seen.join(', ')}`);
  }
  await page.getByRole('button', { name: 'Chats', exact: true }).click();
  await page.getByRole('button', { name: 'Close the list of chats' }).click();
  await until(async () => !(await page.locator('.sidebar').isVisible()), 'the list closes');
  await page.close();
});
