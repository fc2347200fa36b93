// The chat in a real browser (Debian's Chromium) against the server at BALLAST_URL.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { finished, getJson, open, rewriteChats, say, until, useBrowser } from './browser.mjs';

useBrowser();
const focused = (page) => page.evaluate(() => document.activeElement.id);
const LONG = { temperature: 0, ignore_eos: true, max_tokens: 7900 };

// A reply that the test wrote, as the server would stream it.
function scripted(page, deltas) {
  const chunk = (more) => `data: ${JSON.stringify({ choices: [], ...more })}\n\n`;
  const body = deltas.map((delta) => chunk({ choices: [{ index: 0, delta }] })).join('');
  const usage = { prompt_tokens: 1, completion_tokens: 1 };
  return page.route('**/v1/chat/completions', (route) =>
    route.fulfill({
      contentType: 'text/event-stream',
      body: `${body}${chunk({ usage, timings: { queue_ms: 1, prompt_ms: 1, predicted_per_second: 5 } })}data: [DONE]\n\n`,
    }),
  );
}

test('chats by keyboard alone, streams, and tells speed and tokens', async () => {
  const { page, trouble } = await open();
  await rewriteChats(page, { temperature: 0 });
  await page.getByText('Connected').waitFor();
  assert.equal(await focused(page), 'draft');
  await page.keyboard.type('What is the capital of France?');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.press('Enter');
  await finished(page);
  const reply = page.locator('.assistant');
  assert.match(await reply.locator('.markdown').innerText(), /Paris/);
  assert.match(await reply.locator('.note').innerText(), /tok\/s.*tokens.*prompt/s);
  assert.equal(await focused(page), 'draft');
  assert.match(await page.locator('[aria-live=polite]').innerText(), /Reply: .*Paris/s);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('sends what is typed before the model is known, and names a better one', async () => {
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  const { page, trouble } = await open({
    prepare: (page) =>
      page.route('**/v1/models', async (route) => {
        await held;
        await route.continue();
      }),
  });
  await rewriteChats(page, { temperature: 0, max_tokens: 8 });
  await say(page, 'Hello');
  await finished(page);
  answer();
  await page.getByText('tokens of context').waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  assert.match(await page.locator('.demo code').innerText(), /ballast run qwen2\.5-coder-1\.5b-instruct/);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('Escape stops a reply, the server forgets it, and what came stays', async () => {
  const { page, trouble } = await open();
  await rewriteChats(page, LONG);
  await say(page, 'Tell me a story about a fox.');
  await page.locator('.assistant .markdown').filter({ hasText: /.{6}/ }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('stopped after').waitFor();
  await until(async () => (await getJson('/v1/memory')).requests.running === 0, 'the reply ends');
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
  assert.ok((await page.locator('.assistant .markdown').innerText()).length >= 6);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('a refusal is shown in place', async () => {
  const { page } = await open();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Temperature').fill('9');
  await say(page, 'x');
  await page.getByRole('alert').getByText('temperature').waitFor();
  await page.close();
});

test('chats survive a reload; rename, export, edit, retry, delete', async () => {
  const { page, trouble } = await open();
  await rewriteChats(page, { temperature: 0, max_tokens: 6 });
  await say(page, 'First question');
  await finished(page);
  await page.getByRole('button', { name: 'New chat' }).click();
  await say(page, 'Second question');
  await finished(page);
  await page.reload();
  await page.locator('.user .bubble').getByText('Second question').waitFor();
  const reply = await page.locator('.assistant .markdown').innerText();
  await page.getByRole('button', { name: 'First question' }).click();
  await page.locator('.user .bubble').getByText('First question').waitFor();

  await page.getByRole('button', { name: 'Second question' }).click();
  await page.getByRole('button', { name: 'Rename the chat' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('Renamed');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Renamed' }).waitFor();

  const download = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export as JSON' }).click();
  const exported = JSON.parse(await readFile(await (await download).path(), 'utf8'));
  assert.equal(exported.title, 'Renamed');
  assert.deepEqual(exported.messages.map(({ role }) => role), ['user', 'assistant']);

  await page.getByRole('button', { name: 'Retry' }).click();
  await finished(page);
  assert.equal(await page.locator('.assistant .markdown').innerText(), reply, 'greedy, so the same again');

  await page.getByRole('button', { name: 'Edit and send again' }).click();
  await page.getByRole('textbox', { name: 'Edit the message' }).fill('Another question');
  await page.keyboard.press('Enter');
  await page.locator('.user .bubble').getByText('Another question').waitFor();
  await finished(page);
  assert.equal(await page.locator('.message').count(), 2);

  await page.getByRole('button', { name: 'Delete the chat' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.locator('.user .bubble').getByText('First question').waitFor();
  await page.reload();
  await page.locator('.user .bubble').getByText('First question').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Renamed' }).count(), 0);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('a damaged chat and a full storage cost neither the page nor the settings', async () => {
  const { page, trouble } = await open({
    prepare: (page) =>
      page.addInitScript(() => {
        localStorage.setItem('ballast.chat.bad', '{"id":"bad","updated":1,"messages":[null]}');
        localStorage.setItem('ballast.chat.good', '{"id":"good","title":"Kept","updated":2,"messages":[{"id":"m","role":"user","content":"hello"}]}');
        const set = Storage.prototype.setItem;
        Storage.prototype.setItem = function (key, value) {
          if (key !== 'ballast.chat.bad' && key !== 'ballast.chat.good') throw new DOMException('full', 'QuotaExceededError');
          set.call(this, key, value);
        };
      }),
  });
  await page.getByRole('button', { name: 'Kept' }).click();
  await page.locator('.user .bubble').getByText('hello').waitFor();
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByLabel('Temperature').fill('0.3');
  await page.getByRole('button', { name: 'New chat' }).click();
  await rewriteChats(page, { temperature: 0, max_tokens: 2 });
  await say(page, 'Still there?');
  await finished(page);
  assert.deepEqual(trouble, []);
});

test('a tool of the browser is called, shown and answered', async (t) => {
  const [model] = (await getJson('/v1/models')).data;
  if (model.meta.architecture === 'fake') return t.skip('needs a model');
  const { page, trouble } = await open();
  await rewriteChats(page, ({ messages }) => {
    const again = messages.some(({ role }) => role === 'tool');
    return { temperature: 0, max_tokens: again ? 8 : 200, tool_choice: again ? 'none' : 'required' };
  });
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByRole('checkbox', { name: 'clock' }).check();
  await say(page, 'What time is it in Europe/Berlin?');
  const call = page.getByRole('region', { name: 'Tool call clock' });
  await call.getByText('called').waitFor();
  await call.getByRole('region', { name: 'Arguments of clock' }).waitFor();
  assert.match(await call.getByRole('region', { name: 'Result of clock' }).innerText(), /time_zone|error/);
  await finished(page, 1);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('a tool of the user waits for its result', async () => {
  const { page } = await open();
  const sent = [];
  const call = { index: 0, id: 'c1', type: 'function', function: { name: 'read_sensor', arguments: '{"name":' } };
  await scripted(page, [{ tool_calls: [call] }, { tool_calls: [{ index: 0, function: { arguments: '"door"}' } }] }]);
  await page.getByRole('button', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Insert the example' }).click();
  await page.getByLabel('Your tools, as JSON').fill('[{]');
  await page.getByRole('alert').getByText('not JSON').waitFor();
  await page.getByLabel('Your tools, as JSON').fill('[{"name": "read_sensor", "parameters": {"type": "object"}}]');
  await say(page, 'Is the door open?');
  const result = page.getByLabel('Result of read_sensor, as the model should see it');
  await result.waitFor();
  await page.unroute('**/v1/chat/completions');
  page.on('request', (request) => request.url().endsWith('/completions') && sent.push(request.postDataJSON()));
  await scripted(page, [{ content: 'It is open.' }]);
  await result.fill('{"open": true}');
  await page.getByRole('button', { name: 'Send result' }).click();
  await page.locator('.markdown').getByText('It is open.').waitFor();
  const [, assistant, tool] = sent[0].messages;
  assert.equal(sent[0].tools[0].function.name, 'read_sensor');
  assert.equal(assistant.tool_calls[0].function.arguments, '{"name":"door"}');
  assert.deepEqual(tool, { role: 'tool', tool_call_id: 'c1', content: '{"open": true}' });
  await page.close();
});

test('a model cannot bring markup or scripts into the page; reasoning is folded', async () => {
  const { page, trouble } = await open();
  const evil = '<img src=x onerror="window.hit=1"><script>window.hit=2</script>\n\n[click](javascript:window.hit=3) [ok](https://example.org/)\n\n'
    + '- **one**\n- `two`\n\n```js\nalert("<b>")\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n';
  await scripted(page, [{ reasoning_content: 'Let me *think*.' }, { content: evil.slice(0, 30) }, { content: evil.slice(30) }]);
  await say(page, 'x');
  await finished(page);
  const reply = page.locator('.assistant');
  assert.equal(await reply.locator('img, script, iframe').count(), 0);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.match(await reply.innerText(), /<img src=x onerror=/);
  const links = await reply.locator('a').evaluateAll((all) => all.map(({ href, rel }) => [href, rel]));
  assert.deepEqual(links, [['https://example.org/', 'noopener noreferrer nofollow']]);
  assert.equal(await reply.locator('li').count(), 2);
  assert.equal(await reply.locator('td').count(), 2);
  assert.equal(await reply.locator('pre').innerText(), 'alert("<b>")');
  const reasoning = reply.locator('details.reasoning');
  assert.equal(await reasoning.evaluate((box) => box.open), false);
  await reasoning.locator('summary').click();
  await reply.locator('em').getByText('think').waitFor();
  assert.deepEqual(trouble, []);
  await page.close();
});

test('tokens that come fast are drawn at most once a frame', async () => {
  const { page } = await open();
  await scripted(page, Array.from({ length: 3000 }, (_, i) => ({ content: `w${i} ` })));
  await page.evaluate(() => {
    window.frames_ = 0;
    window.draws = 0;
    const count = () => {
      window.frames_ += 1;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    let last = '';
    new MutationObserver(() => {
      const text = document.querySelector('.assistant .markdown')?.textContent ?? '';
      if (text !== last) window.draws += 1;
      last = text;
    }).observe(document.querySelector('.column'), { subtree: true, childList: true, characterData: true });
  });
  await say(page, 'x');
  await page.locator('.assistant').getByText('w2999').waitFor();
  const { draws, frames } = await page.evaluate(() => ({ draws: window.draws, frames: window.frames_ }));
  assert.ok(draws >= 1 && draws <= frames + 1, `${draws} draws in ${frames} frames`);
  await page.close();
});

test('asks for a key where the server wants one, and keeps it for the tab', async () => {
  const { page } = await open({
    prepare: (page) =>
      page.route(/\/(v1|metrics)/, (route) => {
        if (route.request().headers().authorization === 'Bearer right') return route.continue();
        return route.fulfill({ status: 401, json: { error: { message: 'no key', code: 'invalid_api_key' } } });
      }),
  });
  await page.getByRole('dialog').getByText('asks for a key').waitFor();
  await page.getByRole('textbox', { name: 'API key' }).fill('wrong');
  await page.keyboard.press('Enter');
  await page.getByText('does not take this key').waitFor();
  await page.getByRole('textbox', { name: 'API key' }).fill('right');
  await page.keyboard.press('Enter');
  await page.getByText('Connected').waitFor();
  await page.locator('.modelName').waitFor();
  await page.reload();
  await page.locator('.modelName').waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
  assert.equal(await page.evaluate(() => Object.values(localStorage).join().includes('right')), false);
  await page.close();
});
