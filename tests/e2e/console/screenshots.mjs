// The pictures of docs/console.md: BALLAST_URL=… node screenshots.mjs FOLDER. Not a test.
import { chromium } from 'playwright-core';

const [folder] = process.argv.slice(2);
const url = process.env.BALLAST_URL;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'], timeout: 120_000 });

function load(content, max_tokens) {
  const body = { model: '', stream: true, ignore_eos: true, max_tokens, messages: [{ role: 'user', content }] };
  fetch(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })
    .then((reply) => reply.text())
    .catch(() => {});
}

for (const scheme of ['light', 'dark']) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 780 }, colorScheme: scheme });
  page.setDefaultTimeout(240_000);
  const shoot = (name) => page.screenshot({ path: `${folder}/${name}-${scheme}.png` });
  await page.goto(url);
  await page.locator('#draft').fill('Write a Python function that reverses the words of a sentence. Then list two edge cases.');
  await page.keyboard.press('Enter');
  await page.locator('.assistant').getByText('first token').waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByRole('checkbox', { name: 'calculator' }).check();
  await page.getByLabel('Temperature').fill('0');
  await page.locator('#draft').fill('What is (17 + 25) * 12.5? Use the calculator, then say it in one sentence.');
  await page.keyboard.press('Enter');
  await page.locator('.assistant').last().getByText('first token').waitFor();
  await page.getByRole('region', { name: 'Result of calculator' }).waitFor();
  await page.locator('.assistant').nth(1).getByText('first token').waitFor();
  await shoot('tools');
  await page.getByRole('button', { name: 'Close the settings' }).click();
  await page.getByRole('button', { name: /^Write a Python/ }).click();
  await page.locator('.messages').evaluate((box) => (box.scrollTop = 0));
  await shoot('chat');
  if (scheme === 'light') {
    await page.setViewportSize({ width: 360, height: 720 });
    await page.screenshot({ path: `${folder}/chat-small.png` });
    await page.setViewportSize({ width: 1200, height: 780 });
  }
  await page.setViewportSize({ width: 1200, height: 1080 });
  for (let i = 0; i < 24; ++i) {
    load(`Tell story ${i}.`, 8 + 8 * (i % 5));
    await page.waitForTimeout(1500);
    if (i === 2) await page.goto(`${url}/#/traffic`);
  }
  load('Tell a long story.', 600);
  load('Tell another story.', 600);
  await page.locator('tr[data-request]').nth(1).getByText('decode').waitFor();
  await page.waitForTimeout(3000);
  await shoot('traffic');
  await page.goto(`${url}/#/memory`);
  await page.waitForTimeout(2000);
  await shoot('memory');
  await page.goto(`${url}/#/models`);
  await page.waitForTimeout(500);
  await shoot('models');
  await page.close();
  const { data } = await (await fetch(`${url}/v1/requests`)).json();
  for (const { id } of data) await fetch(`${url}/v1/requests/${id}`, { method: 'DELETE' });
}
await browser.close();
