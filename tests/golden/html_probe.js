// Put into a copy of a page by test_html_browser.sh: measures the page as the browser shows it and
// tells the page around it, which shows it in a frame as wide as a phone or a desk.
window.addEventListener('load', () => {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) {
    found.push(`wider than the window: ${root.scrollWidth} of ${window.innerWidth}`);
    const wide = [...document.body.querySelectorAll('*')].filter((e) => !e.closest('svg') &&
      e.getBoundingClientRect().right > window.innerWidth + 1);
    for (const e of wide.slice(0, 6)) {
      found.push(`  ${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`);
    }
  }

  // WCAG 2: relative luminance, contrast of letters with what lies behind them.
  const channels = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const part = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const c = channels(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return channels(getComputedStyle(root).backgroundColor).slice(0, 3);
  };
  const pairs = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || e.closest('title, desc, script, style')) continue;
    const style = getComputedStyle(e);
    const ink = channels(e.closest('svg') ? style.fill : style.color);
    // A letter on a cell of a map has the cell before it; any other lies on what is behind.
    const back = e.classList.contains('on') ? channels(getComputedStyle(e.previousElementSibling).fill)
      : behind(e.closest('svg') || e);
    const a = luminance(ink), b = luminance(back);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${contrast.toFixed(2)} <${e.tagName} class="${e.getAttribute('class')}">`;
    if (contrast < 4.5) pairs.set(key, walk.currentNode.textContent.trim().slice(0, 30));
  }
  for (const [key, text] of pairs) found.push(`contrast ${key} ${text}`);

  parent.postMessage(JSON.stringify({
    found, width: window.innerWidth, dark: matchMedia('(prefers-color-scheme: dark)').matches,
    figures: document.querySelectorAll('[data-figure]').length,
    pictures: document.querySelectorAll('svg[role=img]').length}), '*');
});
