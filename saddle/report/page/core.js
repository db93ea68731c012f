// What all plots share: the data, elements, colours, choices, and figures that can be saved.
const report = JSON.parse(document.getElementById('report-data').textContent);
const state = {
  data: null,
  hidden: new Set()
};
const views = [];  // functions that draw again what depends on the state

// Elements. Text is always a text node: nothing in the data is ever read as HTML.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on'))
      node.addEventListener(key.slice(2), value);
    else if (value === true)
      node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined)
      node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ''));
  return node;
}

// Colours and marks of an attention are the same everywhere; the mark tells apart what a colour might not.
const symbols = [
  d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolDiamond, d3.symbolCross, d3.symbolStar, d3.symbolWye
];
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
const badge = (group) => leaky(group) ? el('span', {class: 'badge', title: leakyText}, '⚠ leaky') : null;

// One of several values: a row of buttons when they are few and short, else a list.
let choices = 0;
function choice(name, options, value, change) {
  const list = options.map((option) => typeof option === 'object' ? option : {value: option, text: String(option)});
  const length = d3.sum(list, (option) => option.text.length + 3);
  if (list.length > 10 || length > 46) {
    const select =
        el('select', {'aria-label': name, onchange: () => change(list[select.selectedIndex].value)},
           list.map((option) => el('option', {selected: option.value === value}, option.text)));
    return el('label', {class: 'choice'}, el('span', {}, name), select);
  }
  const id = 'choice' + ++choices;
  return el(
      'fieldset', {class: 'choice'}, el('legend', {}, name),
      el('span', {class: 'segments'},
         list.map(
             (option) => el(
                 'label', {},
                 el('input',
                    {type: 'radio', name: id, checked: option.value === value, onchange: () => change(option.value)}),
                 el('span', {}, option.text)))));
}

// A figure: title, controls, a plot that fills its width, a line that says what is under the pointer, "save as SVG".
// draw(svg, width) sets the height by returning it; `legend` gives the groups whose colours a saved file must explain.
function figure(parent, {title, name, controls, draw, readout = '', keys, legend, role = 'img'}) {
  const svg = d3.create('svg').attr('role', role).attr('aria-label', title).attr('class', 'plot');
  const line = el('p', {class: 'readout', 'aria-live': 'polite'}, readout);
  const box = el('div', {class: 'canvas'}, svg.node());
  const save =
      el('button', {
        class: 'save',
        type: 'button',
        'aria-label': 'Save as SVG: ' + title,
        onclick: () => saveSvg(svg, name || title, legend ? legend() : [])
      },
         'SVG');
  parent.append(el('figure', {}, el('figcaption', {}, el('h3', {}, title), controls, save), box, line));
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

// The format, or one with more digits if it would write two values alike.
function toldApart(values, format) {
  for (let digits = 3; digits < 10 && new Set(values.map((v) => format(v))).size < values.length; ++digits)
    format = d3.format(`.${digits}~s`);
  return format;
}

// Axes with thin lines: values on the left, a name above; `whole`: no fractions on the lower one.
function axes(svg, {x, y, width, height, margin, xName, yName, xFormat, yFormat, xTicks, yTicks, whole}) {
  const left = svg.append('g').attr('class', 'axis').attr('transform', `translate(${margin.left} 0)`);
  left.call(d3.axisLeft(y)
                .ticks(yTicks || 5, yFormat && typeof yFormat === 'string' ? yFormat : undefined)
                .tickFormat(typeof yFormat === 'function' ? yFormat : null)
                .tickSize(-(width - margin.left - margin.right))
                .tickPadding(6));
  left.select('.domain').remove();
  const bottom = svg.append('g').attr('class', 'axis bare').attr('transform', `translate(0 ${height - margin.bottom})`);
  const axis = d3.axisBottom(x).tickSize(4).tickPadding(4);
  if (x.ticks) {
    const most = xTicks || Math.max(2, Math.floor(width / 90));
    const digit = (v) => Math.round(v / Math.pow(10, Math.floor(Math.log10(v) + 1e-9)));
    const ticks = x.ticks(most).filter((v) => !whole || Number.isInteger(v));
    const values = x.base ? ticks.filter((v) => [1, 2, 5].includes(digit(v))) : ticks;  // a log scale gives too many
    axis.tickValues(values).tickFormat(toldApart(values, xFormat || x.tickFormat(values.length)));
  } else {
    axis.tickFormat(xFormat || null);
  }
  bottom.call(axis);
  svg.append('text')
      .attr('class', 'axis-name')
      .attr('x', width - margin.right)
      .attr('y', height - 4)
      .attr('text-anchor', 'end')
      .text(xName);
  svg.append('text').attr('class', 'axis-name').attr('x', 2).attr('y', 11).text(yName);
}

const attentionCell = (group) =>
    el('span', {class: 'attention'}, swatch(group.label), el('code', {}, group.label), badge(group));
