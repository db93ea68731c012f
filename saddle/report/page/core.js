// What all plots share: the data, elements, numbers, colours, choices, and figures that can be saved.
const report = JSON.parse(document.getElementById('report-data').textContent);
const state = { data: null, hidden: new Set() };
const views = [];  // functions that draw again what depends on the state

// Elements. Text is always a text node: nothing in the data is ever read as HTML.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

// Numbers for people; what is missing is a dash.
const missing = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const percent = (value, digits = 1) => known(value) ? (100 * value).toFixed(digits) : missing;
const fixed = (digits) => (value) => known(value) ? value.toFixed(digits) : missing;
// A quantity with its unit, of {from, size, unit}: the mean chooses unit and digits, the spread uses the same.
function quantity(units) {
  const format = (value, mean = value) => {
    if (!known(value)) return missing;
    const [, size, unit] = units.find(([from]) => Math.abs(mean) >= from) || units[units.length - 1];
    const shown = Math.abs(mean) / size;
    return [(value / size).toFixed(Number.isInteger(value) && size === 1 ? 0 : shown < 10 ? 2 : shown < 100 ? 1 : 0), unit];
  };
  const text = (value) => value === 0 ? '0' : known(value) ? format(value).filter(Boolean).join('\u202f') : missing;
  text.plusMinus = (s) => known(s.std) && s.std > 0 ? `${format(s.mean)[0]} ± ${format(s.std, s.mean)[0]}` + (format(s.mean)[1] && '\u202f' + format(s.mean)[1]) : text(s.mean);
  return text;
}
const count = quantity([[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'], [1e4, 1e3, 'k'], [0, 1, '']]);
const bytes = quantity([[1e9, 1e9, 'GB'], [1e6, 1e6, 'MB'], [0, 1e3, 'kB']]);
const seconds = quantity([[7200, 3600, 'h'], [120, 60, 'min'], [1, 1, 's'], [1e-3, 1e-3, 'ms'], [0, 1e-6, 'µs']]);
const probability = (value) => !known(value) ? missing : value < 0.0001 ? '<\u202f0.0001' : value.toFixed(4);
const plural = (n, one, many) => n + '\u00a0' + (n === 1 ? one : many || one + 's');
const shortened = (text, most) => text.length > most ? text.slice(0, Math.max(1, most - 1)) + '…' : text;

// Mean and spread over seeds; the spread of a single run is not known.
function spread(values) {
  const list = values.filter(known);
  return { mean: list.length ? d3.mean(list) : null, std: list.length > 1 ? d3.deviation(list) : null, n: list.length };
}
const plusMinus = (s, format) => format.plusMinus ? format.plusMinus(s) : known(s.mean) ? format(s.mean) + (known(s.std) && s.std > 0 ? ' ± ' + format(s.std) : '') : missing;

// Colours and marks of an attention are the same everywhere; the mark tells apart what a colour might not.
const symbols = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolStar,
  d3.symbolWye];
const colours = 7;
const place = (label) => Math.max(0, model.labels.indexOf(label));
const colour = (label) => `var(--c${place(label) % colours})`;
const mark = (label, size = 60) => d3.symbol().type(symbols[place(label) % symbols.length]).size(size)();
const dashes = (label) => ['', '7 3', '2 3'][Math.floor(place(label) / colours) % 3] || null;

function swatch(label) {
  const svg = d3.create('svg').attr('class', 'swatch').attr('width', 14).attr('height', 14).attr('aria-hidden', 'true');
  svg.append('path').attr('transform', 'translate(7 7)').attr('d', mark(label, 70)).style('fill', colour(label));
  return svg.node();
}

// A leaky figure is marked wherever it stands.
const leaky = (group) => group.protocol === 'paper';
const leakyText = 'protocol “paper”: the epoch was chosen on the test split';
const plotName = (group, most = 60) => shortened(group.label, most) + (leaky(group) ? ' ⚠ leaky' : '');
const badge = (group) => leaky(group) ? el('span', { class: 'badge', title: leakyText }, '⚠ leaky') : null;

// One of several values: a row of buttons when they are few and short, else a list.
let choices = 0;
function choice(name, options, value, change) {
  const list = options.map((option) => typeof option === 'object' ? option : { value: option, text: String(option) });
  const length = d3.sum(list, (option) => option.text.length + 3);
  if (list.length > 7 || length > 46) {
    const select = el('select', { 'aria-label': name, onchange: () => change(list[select.selectedIndex].value) },
      list.map((option) => el('option', { selected: option.value === value }, option.text)));
    return el('label', { class: 'choice' }, el('span', {}, name), select);
  }
  const id = 'choice' + ++choices;
  return el('fieldset', { class: 'choice' }, el('legend', {}, name), el('span', { class: 'segments' },
    list.map((option) => el('label', {},
      el('input', { type: 'radio', name: id, checked: option.value === value, onchange: () => change(option.value) }),
      el('span', {}, option.text)))));
}

// A figure: title, controls, a plot that fills its width, a line that says what is under the pointer, "save as SVG".
// draw(svg, width) sets the height by returning it.
function figure(parent, { title, name, controls, draw, readout = '', keys, role = 'img' }) {
  const svg = d3.create('svg').attr('role', role).attr('aria-label', title).attr('class', 'plot');
  const line = el('p', { class: 'readout', 'aria-live': 'polite' }, readout);
  const box = el('div', { class: 'canvas' }, svg.node());
  const save = el('button', { class: 'save', type: 'button', 'aria-label': 'Save as SVG: ' + title,
    onclick: () => saveSvg(svg.node(), name || title) }, 'SVG');
  parent.append(el('figure', {}, el('figcaption', {}, el('h3', {}, title), controls, save),
    box, line));
  if (keys) {
    svg.attr('tabindex', 0);
    svg.node().addEventListener('keydown', (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && keys(event.key)) event.preventDefault();
    });
  }
  const view = {
    svg,
    say: (...parts) => line.replaceChildren(...parts.flat().filter((part) => part !== null)),
    redraw() {
      const width = Math.max(240, Math.floor(box.clientWidth || 640));
      svg.selectAll('*').remove();
      const height = Math.ceil(draw(svg, width));
      svg.attr('viewBox', `0 0 ${width} ${height}`).attr('width', width).attr('height', height);
    },
  };
  return view;
}

// Where the pointer is, in the units of the plot.
function pointer(event, svg) {
  const box = svg.node().getBoundingClientRect();
  const view = svg.node().viewBox.baseVal;
  return [(event.clientX - box.left) * view.width / box.width, (event.clientY - box.top) * view.height / box.height];
}

// Axes with thin lines: values on the left, a name above.
function axes(svg, { x, y, width, height, margin, xName, yName, xFormat, yFormat, xTicks, yTicks }) {
  const left = svg.append('g').attr('class', 'axis').attr('transform', `translate(${margin.left} 0)`);
  left.call(d3.axisLeft(y).ticks(yTicks || 5, yFormat && typeof yFormat === 'string' ? yFormat : undefined)
    .tickFormat(typeof yFormat === 'function' ? yFormat : null).tickSize(-(width - margin.left - margin.right)).tickPadding(6));
  left.select('.domain').remove();
  const bottom = svg.append('g').attr('class', 'axis bare').attr('transform', `translate(0 ${height - margin.bottom})`);
  bottom.call(d3.axisBottom(x).ticks(xTicks || Math.max(2, Math.floor(width / 90))).tickFormat(xFormat || null).tickSize(4).tickPadding(4));
  svg.append('text').attr('class', 'axis-name').attr('x', width - margin.right).attr('y', height - 4)
    .attr('text-anchor', 'end').text(xName);
  svg.append('text').attr('class', 'axis-name').attr('x', 2).attr('y', 11).text(yName);
}

// A table whose columns sort. columns: {name, unit, value(row), cell(row), text: left-aligned, best: 'max' | 'min'}.
function sortableTable(columns, rows, { caption, sort = 0, descending = false, rival = () => true } = {}) {
  const body = el('tbody');
  const headings = columns.map((column, c) => el('th', { scope: 'col', class: column.text ? 'text' : null },
    el('button', { type: 'button', onclick: () => order(c) }, column.name,
      column.unit ? el('span', { class: 'unit' }, ' ' + column.unit) : null, el('span', { class: 'arrow', 'aria-hidden': 'true' }))));
  const best = columns.map((column) => {
    const values = rows.filter(rival).map((row) => column.value(row)).filter(known);
    return !column.best || new Set(values).size < 2 ? null : column.best === 'max' ? d3.max(values) : d3.min(values);
  });
  let current = -1, down = false;
  function order(c, direction) {
    down = direction !== undefined ? direction : c === current ? !down : !columns[c].text;
    current = c;
    const key = columns[c].value;
    const sorted = rows.slice().sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === y) return 0;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (down ? d3.descending : d3.ascending)(x, y);
    });
    headings.forEach((heading, h) => {
      if (h === c) heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else heading.removeAttribute('aria-sort');
    });
    body.replaceChildren(...sorted.map((row) => el('tr', {}, columns.map((column, i) => {
      const isBest = best[i] !== null && rival(row) && column.value(row) === best[i];
      return el(i === 0 ? 'th' : 'td', { class: [column.text ? 'text' : '', isBest ? 'best' : ''].join(' ').trim() || null,
        scope: i === 0 ? 'row' : null }, column.cell(row));
    }))));
  }
  order(sort, descending);
  return el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, headings)), body));
}

const attentionCell = (group) => el('span', { class: 'attention' }, swatch(group.label), el('code', {}, group.label), badge(group));

// The bytes behind base64.
function decode(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) out[i] = raw.charCodeAt(i);
  return out;
}

// A picture of rows x columns pixels for an <image>: shade(i) gives [r, g, b].
function picture(rows, columns, shade) {
  const canvas = el('canvas', { width: columns, height: rows });
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; ++i) {
    const [r, g, b] = shade(i);
    pixels.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}
