// Starts a headless browser, Chromium or Firefox, with a page that prefers a theme.
import puppeteer from 'puppeteer-core';

export async function open(executablePath, { width = 1280, height = 800, theme = 'light' } = {}) {
  const isFirefox = executablePath.includes('firefox');
  // Firefox has no emulation of media features, but a setting: 0 is dark, 1 is light.
  const extraPrefsFirefox = { 'layout.css.prefers-color-scheme.content-override': theme === 'dark' ? 0 : 1 };
  const own = isFirefox ? { browser: 'firefox', extraPrefsFirefox } : { args: ['--no-sandbox', '--disable-gpu'] };
  const browser = await puppeteer.launch({ executablePath, headless: true, ...own });
  const page = await browser.newPage();
  await page.setViewport({ width: Number(width), height: Number(height) });
  if (!isFirefox) await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
  return { browser, page };
}
