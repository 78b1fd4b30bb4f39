// Opens a page that follows a recording in a headless browser. Prints what it shows when it is there, then what it shows
// when it has more rows.
//
//   node follow.mjs BROWSER URL
import { open } from './browser.mjs';

const [path, url] = process.argv.slice(2);
const { browser, page } = await open(path);
const said = [], requests = [];
try {
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  page.on('request', (request) => { if (!request.url().startsWith(url)) requests.push(request.url()); });
  await page.goto(url);
  await page.waitForSelector('body[data-ready]');
  await page.waitForFunction(() => app.current?.rows.some((row) => row.tool === 't' && row.answers));
  const look = () => page.evaluate(() => ({
    rows: app.list.items.length,
    last: byId('list').querySelector('.row:last-child')?.textContent,
    selected: app.selected?.number,
    top: byId('list').scrollTop,
    search: byId('search').value,
    details: byId('right').textContent,
    live: byId('live').textContent,
    title: byId('title').textContent,
  }));
  // The viewer looks at an early row of those that a search finds.
  await page.evaluate(async () => {
    byId('search').value = 'tools/call';
    await app.find('tools/call');
    app.list.select(2);
    await app.detail(app.list.items[2]);
    byId('list').scrollTop = 30;
  });
  const before = await look();
  console.log(JSON.stringify(before));
  await page.waitForFunction((rows) => app.list.items.length >= rows + 2, { timeout: 0 }, before.rows);
  console.log(JSON.stringify({ ...(await look()), said, requests }));
} finally {
  await browser.close();
}
