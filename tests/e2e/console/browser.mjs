// What the console's tests share: the browser, pages that watch for trouble, and waiting.
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

export const url = process.env.BALLAST_URL;
// A starved machine may cost time but not the verdict: nothing here measures speed.
export const patience = 120_000;
let browser;

export function useBrowser() {
  before(async () => {
    browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--no-sandbox'], // test machines run as root
      timeout: patience,
    });
  });
  after(() => browser.close());
}

// Opens the console in a fresh profile and collects whatever must not happen: requests to elsewhere, errors,
// violations of the content policy. `prepare` runs before the page loads.
export async function open({ prepare, path = '', ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, ...options });
  page.setDefaultTimeout(patience);
  const trouble = [];
  page.on('request', (request) => {
    const from = request.url();
    if (!from.startsWith('data:') && !from.startsWith('blob:') && new URL(from).origin !== new URL(url).origin) trouble.push(`request to ${from}`);
  });
  page.on('console', (message) => message.type() === 'error' && trouble.push(message.text()));
  page.on('pageerror', (error) => trouble.push(String(error)));
  await prepare?.(page);
  await page.goto(url + path);
  await page.locator('.bar').waitFor();
  return { page, trouble };
}

// The tests must not depend on what a small model happens to sample.
export async function rewriteChats(page, fields) {
  await page.route('**/v1/chat/completions', (route) => {
    const body = route.request().postDataJSON();
    const more = typeof fields === 'function' ? fields(body) : fields;
    return route.continue({ postData: JSON.stringify({ ...body, ...more }) });
  });
}

export async function say(page, text) {
  await page.locator('#draft').fill(text);
  await page.locator('#draft').press('Enter');
}

// The reply's statistics come when it is complete.
export const finished = (page, index = 0) => page.locator('.assistant').nth(index).getByText('first token').waitFor();

export async function until(condition, what) {
  const end = Date.now() + patience;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const getJson = async (path) => (await fetch(url + path)).json();
