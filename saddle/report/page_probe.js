// Uses the page as a reader would and reports what happened; runs in a frame of the width under test, after the page.
(async () => {
  const seen = {errors: window.probeErrors, alerts: window.probeAlerts};
  const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const press = (node, key) => node.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
  const overflow = () => document.documentElement.scrollWidth - window.innerWidth;
  const visible = (node) => node.getClientRects().length > 0;

  // Saved files are caught on their way to the disk.
  const blobs = [];
  URL.createObjectURL = (blob) => {
    blobs.push(blob);
    return '#saved';
  };
  HTMLAnchorElement.prototype.click = function() {};

  const luminance = (text) => {
    const channel = (v) => v / 255 <= 0.03928 ? v / 255 / 12.92 : Math.pow((v / 255 + 0.055) / 1.055, 2.4);
    const c = d3.rgb(text);
    return 0.2126 * channel(c.r) + 0.7152 * channel(c.g) + 0.0722 * channel(c.b);
  };
  const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const contrast = (a, b) => {
    const [x, y] = [luminance(value(a)), luminance(value(b))].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };

  try {
    seen.width = window.innerWidth;
    seen.theme = document.documentElement.dataset.theme;
    seen.sections = all('main > section').map((section) => section.id);
    seen.headings = all('h1, h2, h3').map((heading) => heading.textContent);
    seen.derivations = all('.derivation math').length;
    seen.contrast = {
      text: Math.min(...['--ink', '--soft', '--accent', '--good', '--bad'].flatMap(
          (name) => ['--paper', '--panel', '--field'].map((ground) => contrast(name, ground)))),
      warning: contrast('--warn-ink', '--warn'),
      plots: Math.min(...[0, 1, 2, 3, 4, 5, 6].map((i) => contrast('--c' + i, '--panel'))),
    };

    // Every data set, at this width.
    seen.data = [];
    const count = all('.bar .segments input').length;
    for (let i = 0; i < Math.max(1, count); ++i) {
      if (count) all('.bar .segments input')[i].click();
      await sleep(20);
      seen.data.push({
        overflow: overflow(),
        empty: all('svg.plot').filter((svg) => visible(svg) && svg.childElementCount === 0).length,
        wide: all('svg.plot')
                  .filter((svg) => visible(svg) && svg.getBoundingClientRect().right > window.innerWidth + 1)
                  .length,
        rows: all('#summary tbody tr').length,
        cell: all('#summary tbody tr:first-child td').map((cell) => cell.textContent).join('|'),
        text: document.getElementById('report').textContent.includes(
            '<script>alert(1)<' +
            '/script>'),
        query: '',
        moved: '',
      });
      const input = all('#maps svg.plot')[0];
      if (input && visible(input)) {
        const line = () => input.closest('figure').querySelector('.readout').textContent;
        seen.data[i].query = line();
        press(input, 'ArrowRight');
        press(input, 'ArrowDown');
        seen.data[i].moved = line();
      }
    }

    // Sorting, hiding, cursors, thumbnails, theme.
    const heading = all('#summary thead th')[2];
    heading.querySelector('button').click();
    seen.sorted = heading.getAttribute('aria-sort');
    const before = all('#summary tbody tr').length;
    const toggle = all('.legend button').filter(visible)[0];
    toggle.click();
    seen.hidden = before - all('#summary tbody tr').length;
    toggle.click();
    const curve = all('#curves svg.plot')[0];
    press(curve, 'ArrowRight');
    seen.curve = curve.closest('figure').querySelector('.readout').textContent;
    const matrix = all('#classes svg.plot')[0];
    press(matrix, 'ArrowRight');
    seen.matrix = matrix.closest('figure').querySelector('.readout').textContent;
    const thumb = all('.thumb')[1];
    press(thumb, 'Enter');
    seen.thumb = all('.thumb[aria-pressed=true]').map((node) => node.getAttribute('aria-label'));
    for (const details of all('details')) details.open = true;
    await sleep(20);
    seen.opened = overflow();
    for (const details of all('details')) details.open = false;

    // Names for those who do not see, links that lead somewhere, nothing made from data.
    const nameless =
        all('button, select, input, svg[tabindex], [role=button]')
            .filter((node) => !(node.getAttribute('aria-label') || node.textContent.trim() || node.closest('label')));
    seen.nameless = nameless.map((node) => node.outerHTML.slice(0, 80));
    seen.unfocusable = all('svg[role=application]').filter((node) => node.tabIndex !== 0).length;
    seen.broken =
        all('a[href^="#"]').filter((link) => !document.getElementById(link.getAttribute('href').slice(1))).length;
    seen.foreign = all('#report script, #report img, #report iframe, #report b b').length;

    // Every plot as a file of its own.
    for (const save of all('button.save').filter(visible)) save.click();
    const saved = await Promise.all(blobs.map((blob) => blob.text()));
    seen.plots = all('button.save').filter(visible).length;
    seen.saved = saved.map((text) => {
      const file = new DOMParser().parseFromString(text, 'image/svg+xml');
      return {
        sound: !file.querySelector('parsererror') && file.documentElement.localName === 'svg',
        text: file.querySelectorAll('text').length,
        styled: !/var\(|class=|currentColor/.test(text),
        alone: !/(href|src)="(?!data:)/.test(text),
        light: /rgb\((27, 29, 34|90, 94, 105)\)/.test(text) && !/rgb\((230, 231, 235|163, 167, 179)\)/.test(text)
      };
    });

    const button = document.querySelector('.theme');
    button.click();
    seen.themes = [document.documentElement.dataset.theme];
    button.click();
    seen.themes.push(document.documentElement.dataset.theme);
    button.click();
  } catch (error) {
    seen.errors.push(String(error.stack || error));
  }
  seen.alerts = window.probeAlerts;
  window.parent.postMessage(encodeURIComponent(JSON.stringify(seen)), '*');
})();
