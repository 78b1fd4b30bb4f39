// Opens an exported page in a headless browser, drives every view, and prints what it saw as JSON.
//
//   node drive.mjs BROWSER PAGE [WIDTH HEIGHT light|dark]
import { open } from './browser.mjs';

const [path, file, width = '1280', height = '800', theme = 'light'] = process.argv.slice(2);
const { browser, page } = await open(path, { width, height, theme });
const seen = { said: [], requests: [], views: {} };
try {
  page.on('console', (message) => seen.said.push(message.text()));
  page.on('pageerror', (error) => seen.said.push(String(error)));
  // Firefox reports fonts of its own, which it has in URLs with data.
  page.on('request', (request) => { if (request.url() !== `file://${file}` && !request.url().startsWith('data:')) seen.requests.push(request.url()); });
  page.on('dialog', (dialog) => { seen.said.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(`file://${file}`);
  await page.waitForSelector('body[data-ready]');
  const evaluate = (body, ...values) => page.evaluate(body, ...values);
  seen.dark = await evaluate(() => matchMedia('(prefers-color-scheme: dark)').matches);
  seen.sessions = await evaluate(() => (byId('session').hidden ? 1 : byId('session').options.length));
  seen.explanation = await page.$eval('#explanation', (element) => element.textContent);
  seen.wide = await evaluate(() => document.documentElement.scrollWidth > innerWidth);

  // The layers of the first messages.
  seen.layers = await evaluate(() => Promise.all(app.current.rows.filter((row) => row.number !== undefined).slice(0, 12)
    .map(async (row) => [row.number, (await app.current.message(row)).nodes.map(({ name, value }) => [name, value])])));

  // Every item of every view, with its details.
  for (const name of await evaluate(() => Object.keys(VIEWS))) {
    await evaluate((view) => app.view(view), name);
    const rows = await evaluate(() => app.list.items.length);
    const view = { rows, first: '', details: 0 };
    for (let index = 0; index < Math.min(rows, 200); index += 1) {
      const text = await evaluate(async (at) => {
        app.list.select(at, true);
        await app.detail(app.list.items[at]);
        return byId('right').textContent;
      }, index);
      view.details += text.length > 0;
      if (index === 0) view.first = await evaluate(() => byId('list-0').textContent);
    }
    if (rows === 0) view.details = (await page.$eval('#right', (element) => element.textContent.length)) > 0 ? 1 : 0;
    seen.views[name] = view;
  }

  // Each member of the first texts: the lit bytes are the bytes of the member.
  seen.members = await evaluate(async () => {
    app.view('messages');
    const wrong = [];
    let lit = 0;
    for (const [at, row] of app.list.items.entries()) {
      if (row.number === undefined || at > 30) continue;
      app.list.select(at, true);
      await app.detail(row);
      const message = await app.current.message(row);
      for (const element of byId('right').querySelectorAll('section.own .member')) {
        element.click();
        const { source, ranges, field } = bytesPane;
        const bytes = ranges.flatMap(([start, end]) => [...bytesPane.shown.sources[source].bytes.subarray(start, end)]);
        const text = [...message.sources[0].bytes.subarray(...field)];
        if (source > 0) lit += 1;
        const derived = message.carried.some((run) => run[2] === source && run[4] !== null);
        if (source > 0 && !derived && String(bytes) !== String(text)) wrong.push([row.number, element.textContent]);
      }
    }
    return { lit, wrong };
  });

  // Keys: down, partner, search, help, back.
  await evaluate(() => { app.view('messages'); byId('list').focus(); });
  for (const key of ['j', 'j', 'p', 'n', 'G', 'g', 'y', '?']) await page.keyboard.press(key);
  seen.help = await evaluate(() => byId('keys').open);
  await page.keyboard.press('Escape');
  await page.keyboard.press('/');
  await page.keyboard.type('jsonrpc');
  await page.waitForFunction(() => app.search.hits);
  seen.found = await evaluate(() => app.list.items.filter((row) => row.number !== undefined).length);
  await page.keyboard.press('Escape');
  seen.after = await evaluate(() => app.list.items.length);

  // The contrast of each colour of text on each ground (WCAG 2.1, 1.4.3: at least 4.5 to 1).
  seen.contrast = await evaluate(() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
      const value = style.getPropertyValue(`--${name}`).trim().slice(1);
      const [r, g, b] = [0, 2, 4].map((at) => parseInt(value.slice(at, at + 2), 16) / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    let least = Infinity;
    for (const ground of ['back', 'panel', 'chosen']) {
      for (const text of ['text', 'dim', 'client', 'server', 'error', 'warning', 'good']) {
        const [high, low] = [light(text), light(ground)].sort((a, b) => b - a);
        least = Math.min(least, (high + 0.05) / (low + 0.05));
      }
    }
    return least;
  });
  seen.unnamed = await evaluate(() => [...document.querySelectorAll('button, select, input')]
    .filter((element) => !(element.textContent.trim() || element.getAttribute('aria-label') || element.getAttribute('title'))).map((element) => element.outerHTML));
  seen.images = await evaluate(() => document.querySelectorAll('img, iframe, svg, object, embed, link, a').length);
  seen.text = await evaluate(() => document.body.innerText);
  seen.hidden = /[\u202a-\u202e\u2066-\u2069\u200b\u{e0000}-\u{e007f}\u001b]/u.test(seen.text);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
