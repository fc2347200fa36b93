// The console in a real browser (Debian's Chromium) against the server at BALLAST_URL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const url = process.env.BALLAST_URL;
const shots = process.env.BALLAST_SCREENSHOTS;
// A starved machine may cost time but not the verdict: nothing here measures speed.
const patience = 120_000;
let browser;

before(async () => {
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'], // test machines run as root
    timeout: patience,
  });
});
after(() => browser.close());

// Opens the page and collects whatever must not happen: foreign requests, errors in the console.
async function open({ prepare, ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1100, height: 760 }, ...options });
  page.setDefaultTimeout(patience);
  await prepare?.(page);
  const trouble = [];
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin && !request.url().startsWith('data:')) {
      trouble.push(`request to ${request.url()}`);
    }
  });
  page.on('console', (message) => {
    if (message.type() === 'error') trouble.push(message.text());
  });
  page.on('pageerror', (error) => trouble.push(String(error)));
  await page.goto(url);
  await page.getByText('Connected').waitFor();
  return { page, trouble };
}

// The tests must not depend on what a small model happens to sample.
async function rewriteChats(page, fields) {
  await page.route('**/v1/chat/completions', (route) => {
    const body = { ...route.request().postDataJSON(), ...fields };
    return route.continue({ postData: JSON.stringify(body) });
  });
}

test('chats by keyboard alone, streams, and shows speed and memory', async () => {
  const { page, trouble } = await open();
  await rewriteChats(page, { temperature: 0 });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'draft');
  await page.keyboard.type('What is the capital of France?');
  await page.keyboard.press('Enter');
  const reply = page.locator('.message.assistant').first();
  await reply.getByText('tokens/s').waitFor();
  await reply.getByText('first token after').waitFor();
  assert.match(await reply.locator('.text').innerText(), /Paris/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'draft');
  await page.getByRole('heading', { name: 'Memory' }).waitFor();
  assert.match(await page.locator('.panel').innerText(), /weights/);
  assert.equal(await page.locator('.chart canvas').count(), 1);
  if (shots) await page.screenshot({ path: `${shots}/light.png` });
  assert.deepEqual(trouble, []);
  await page.close();
});

test('sends what is typed before the model is known', async () => {
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  const prepare = (page) =>
    page.route('**/v1/models', async (route) => {
      await held;
      await route.continue();
    });
  const { page, trouble } = await open({ prepare });
  await rewriteChats(page, { temperature: 0, max_tokens: 8 });
  await page.keyboard.type('Hello');
  await page.keyboard.press('Enter');
  await page.locator('.message.assistant').getByText('first token after').waitFor();
  answer();
  await page.getByText('tokens of context').waitFor();
  assert.deepEqual(trouble, []);
  await page.close();
});

test('names a better model beside the demo model', async () => {
  const { page } = await open();
  assert.match(await page.locator('.demo').innerText(), /small demo model/);
  assert.match(await page.locator('.demo code').innerText(), /ballast run qwen2\.5-coder-1\.5b-instruct/);
  await page.close();
});

test('Escape stops a reply and the server forgets it', async () => {
  const { page, trouble } = await open();
  await rewriteChats(page, { temperature: 0, ignore_eos: true, max_tokens: 7900 });
  await page.keyboard.type('Tell me a story about a fox.');
  await page.keyboard.press('Enter');
  await page.locator('.message.assistant .text').filter({ hasText: /.{6}/ }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('stopped after').waitFor();
  const until = Date.now() + patience;
  while (true) {
    const memory = await (await fetch(`${url}/v1/memory`)).json();
    if (memory.requests.running === 0) break;
    assert.ok(Date.now() < until, 'the reply goes on');
  }
  await page.getByRole('button', { name: 'Send' }).waitFor();
  assert.deepEqual(trouble, []);
  await page.close();
});

test('shows a refusal in place', async () => {
  const { page } = await open();
  await page.getByText('Settings').click();
  await page.getByLabel('Temperature').fill('9');
  await page.locator('#draft').fill('x');
  await page.locator('#draft').press('Enter');
  await page.getByRole('alert').getByText('temperature').waitFor();
  await page.close();
});

test('is dark where the system is, and on demand', async () => {
  const { page } = await open({ colorScheme: 'dark' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  if (shots) await page.screenshot({ path: `${shots}/dark.png` });
  await page.getByRole('button', { name: 'Light' }).click();
  // The page paints after the click has been answered.
  const until = Date.now() + patience;
  while ((await ground()) === dark) assert.ok(Date.now() < until, 'the page stays dark');
  await page.close();
});
