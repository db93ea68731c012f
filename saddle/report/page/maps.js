// Attention maps, browsed by attention, sample, layer, head and query, with the input beside them.

// Weights of one head: cells of the map, and from tokens to cells.
function readMap(run, sample, layer, head) {
  const map = report.runs[run].inspect.samples[sample].layers[layer].heads[head];
  if (!map.values) map.values = decode(map.data);
  const [rowScale, columnScale] = map.scale || [1, 1];
  const inspect = report.runs[run].inspect;
  const pooled = inspect.pooling.find((entry) => entry.layer === layer);
  const factor = pooled ? pooled.factors[head] : 1;
  const group = pooled && pooled.groups[factor];
  const tokens = inspect.grid ? inspect.grid.prefix + inspect.grid.rows * inspect.grid.columns : Math.round(map.rows * rowScale);
  const key = (token) => group ? group[token] : Math.floor(token / factor);
  return {
    map, tokens, factor,
    row: (query) => Math.min(map.rows - 1, Math.floor(query / rowScale)),
    // The cell of the key that stands for a token; -1 if pooling leaves the token out.
    column: (token) => {
      const k = key(token);
      return k === undefined || k < 0 ? -1 : Math.min(map.columns - 1, Math.floor(k / columnScale));
    },
    at: (row, column) => map.values[row * map.columns + column] / 255 * map.max,
  };
}

// What a query gives to every token, or what all queries give on average; with the largest, for the shades.
function weightsOf(head, query) {
  const { map } = head;
  const cells = new Float64Array(map.columns);
  if (query === null) {
    for (let r = 0; r < map.rows; ++r) for (let c = 0; c < map.columns; ++c) cells[c] += head.at(r, c) / map.rows;
  } else {
    for (let c = 0; c < map.columns; ++c) cells[c] = head.at(head.row(query), c);
  }
  return { of: (token) => head.column(token) < 0 ? 0 : cells[head.column(token)], max: d3.max(cells) || 1 };
}

const heat = (() => {
  const table = d3.range(256).map((i) => {
    const c = d3.rgb(d3.interpolateCividis(i / 255));
    return [c.r, c.g, c.b];
  });
  return (byte) => table[byte];
})();

function mapsSection(body) {
  const at = { label: null, sample: 0, layer: 0, head: 0, query: 0, mean: false };
  const controls = el('div', { class: 'controls' });
  const plots = el('div', { class: 'figures maps' });
  body.append(controls, plots);
  const runOf = () => model.runs.find((run) => run.data === state.data && run.label === at.label && run.inspect && run.inspect.samples.length);
  const labels = () => model.groups.filter((g) => g.data === state.data && g.members.some((run) => run.inspect && run.inspect.samples.length)).map((g) => g.label);
  const sampleOf = () => runOf().inspect.samples[at.sample];
  const head = () => readMap(runOf().number, at.sample, at.layer, at.head);
  const className = (label) => label === undefined ? 'unknown' : runOf().classNames[label];

  const input = figure(plots, { title: 'Input', name: 'attention-input', draw: drawInput, keys: inputKeys, role: 'application' });
  const matrix = figure(plots, { title: 'Attention map', name: 'attention-map', draw: drawMatrix, keys: matrixKeys, role: 'application' });
  const aside = el('div', { class: 'stack' });
  plots.append(aside);
  const prediction = figure(aside, { title: 'Prediction', name: 'prediction', draw: drawPrediction });
  const all = figure(aside, { title: 'All layers and heads', name: 'attention-heads', draw: drawAll });
  const note = el('p', { class: 'readout' });
  body.append(note);

  let reader = null;  // of the input: moves the query
  function drawInput(svg, width) {
    const run = runOf();
    const weights = weightsOf(head(), at.mean ? null : at.query);
    const entry = report.inputs[sampleOf().input];
    const kinds = { image: drawImageInput, series: drawSeriesInput, tokens: drawTokensInput };
    reader = kinds[entry.kind](svg, width, { input: entry, grid: run.inspect.grid, tokens: head().tokens, weights, query: at.mean ? null : at.query, pick });
    const share = weights.of(at.query);
    input.say(at.mean ? `Mean over all queries; the largest is ${weights.max.toFixed(3)}.` : [el('b', {}, reader.name(at.query)), ` is the query: largest weight ${weights.max.toFixed(3)}, to itself ${share.toFixed(3)}` + (head().factor > 1 ? `; a key stands for ${reader.pooled(head().factor)}.` : '.') + ' Point at another, or use the arrow keys.']);
    return reader.height;
  }
  function inputKeys(key) {
    const to = reader.move(at.query, key);
    if (to === null) return false;
    pick(to);
    return true;
  }
  function matrixKeys(key) {
    const step = Math.max(1, Math.round((head().map.scale || [1])[0]));
    const to = { ArrowUp: at.query - step, ArrowDown: at.query + step, Home: 0, End: head().tokens - 1 }[key];
    if (to === undefined) return false;
    pick(to);
    return true;
  }
  function pick(query) {
    at.query = Math.max(0, Math.min(head().tokens - 1, query));
    at.mean = false;
    const box = controls.querySelector('input[type=checkbox]');
    if (box) box.checked = false;
    input.redraw();
    cursor();
  }

  function drawMatrix(svg, width) {
    const { map } = head();
    const margin = { left: 34, top: 18, right: 8, bottom: 44 };
    const room = width - margin.left - margin.right;
    const tall = Math.min(room, 400);
    const wide = Math.min(room, tall * Math.min(1, Math.max(0.25, map.columns / map.rows)));
    svg.append('image').attr('x', margin.left).attr('y', margin.top).attr('width', wide).attr('height', tall).attr('preserveAspectRatio', 'none')
      .attr('href', picture(map.rows, map.columns, (i) => heat(map.values[i]))).style('image-rendering', 'pixelated');
    svg.append('rect').attr('class', 'frame').attr('x', margin.left).attr('y', margin.top).attr('width', wide).attr('height', tall);
    svg.append('text').attr('class', 'axis-name').attr('x', margin.left).attr('y', 11).text(`keys: ${Math.round(map.columns * (map.scale || [1, 1])[1])}` + (head().factor > 1 ? ' pooled' : '') + ' →');
    svg.append('text').attr('class', 'axis-name').attr('transform', `translate(${margin.left - 8} ${margin.top}) rotate(-90)`).attr('text-anchor', 'end').text(`← queries: ${head().tokens}`);
    const y = margin.top + tall + 12;
    const bar = Math.min(150, wide);
    svg.append('image').attr('x', margin.left).attr('y', y).attr('width', bar).attr('height', 8).attr('preserveAspectRatio', 'none').attr('href', picture(1, 256, heat));
    svg.append('text').attr('class', 'value').attr('x', margin.left).attr('y', y + 22).text('0');
    svg.append('text').attr('class', 'value').attr('x', margin.left + bar).attr('y', y + 22).attr('text-anchor', 'end').text(map.max.toFixed(3));
    drawMatrix.box = { left: margin.left, top: margin.top, wide, tall };
    matrix.say('A row is a query, a column a key. ↑ and ↓ move the query.');
    cursor();
    return y + 28;
  }
  function cursor() {
    const { left, top, wide, tall } = drawMatrix.box;
    matrix.svg.selectAll('.transient').remove();
    if (at.mean) return;
    const h = head();
    matrix.svg.append('rect').attr('class', 'transient chosen').attr('x', left - 1).attr('y', top + tall * h.row(at.query) / h.map.rows - 1)
      .attr('width', wide + 2).attr('height', Math.max(3, tall / h.map.rows + 2));
  }
  matrix.svg.node().addEventListener('pointermove', (event) => {
    const { left, top, wide, tall } = drawMatrix.box;
    const [x, y] = pointer(event, matrix.svg);
    if (x < left || x >= left + wide || y < top || y >= top + tall) return;
    const h = head();
    const row = Math.floor((y - top) / tall * h.map.rows), column = Math.floor((x - left) / wide * h.map.columns);
    matrix.say(`query ${row}, key ${column}: ${h.at(row, column).toFixed(4)}`);
    if (event.buttons || event.pointerType === 'mouse') pick(Math.round(row * (h.map.scale || [1])[0]));
  });

  function drawPrediction(svg, width) {
    const sample = sampleOf();
    const order = d3.range(sample.probabilities.length).sort((a, b) => sample.probabilities[b] - sample.probabilities[a]).slice(0, 10);
    if (sample.label !== undefined && !order.includes(sample.label)) order.push(sample.label);
    const row = 22, names = Math.min(width * 0.45, 130);
    const x = d3.scaleLinear().domain([0, 1]).range([0, width - names - 64]);
    order.forEach((c, i) => {
      const y = row * i + 4;
      const right = c === sample.label;
      svg.append('text').attr('class', 'name' + (right ? ' strong' : '')).attr('x', names - 8).attr('y', y + 14).attr('text-anchor', 'end')
        .text((right ? '✓ ' : '') + shortened(className(c), Math.floor(names / 7.4))).append('title').text(className(c));
      svg.append('rect').attr('class', right ? 'good' : c === sample.predicted ? 'bad' : 'quiet').attr('x', names).attr('y', y + 3)
        .attr('width', Math.max(1, x(sample.probabilities[c]))).attr('height', row - 8).attr('rx', 2);
      svg.append('text').attr('class', 'value').attr('x', names + Math.max(1, x(sample.probabilities[c])) + 6).attr('y', y + 14).text(percent(sample.probabilities[c]) + ' %');
    });
    const correct = sample.label === sample.predicted;
    prediction.say(el('b', { class: sample.label === undefined ? null : correct ? 'good' : 'bad' }, sample.label === undefined ? 'Predicted: ' : correct ? 'Right: ' : 'Wrong: '), className(sample.predicted),
      sample.label === undefined || correct ? '' : ', but it is ' + className(sample.label), '.');
    return row * order.length + 10;
  }

  // Small maps of all heads; a click or Enter shows one large.
  function drawAll(svg, width) {
    const layers = sampleOf().layers;
    const most = d3.max(layers, (layer) => layer.heads.length);
    const left = most < 7 ? 56 : 22, gap = most < 7 ? 6 : 3;
    const size = Math.max(14, Math.min(72, (width - left) / most - gap));
    d3.range(most).forEach((h) => svg.append('text').attr('class', 'axis-name').attr('x', left + h * (size + gap) + size / 2).attr('y', 12).attr('text-anchor', 'middle')
      .text((size > 50 ? 'head ' : '') + (h + 1) + factorText(h)));
    function factorText(h) {
      const pooled = runOf().inspect.pooling[0];
      return pooled && pooled.factors[h] > 1 && size > 50 ? ` · ÷${pooled.factors[h]}` : '';
    }
    layers.forEach((layer, l) => {
      const y = 20 + l * (size + gap);
      svg.append('text').attr('class', 'axis-name').attr('x', left - 8).attr('y', y + size / 2 + 4).attr('text-anchor', 'end').text((most < 7 ? 'layer ' : '') + (l + 1));
      layer.heads.forEach((_, h) => {
        const { map } = readMap(runOf().number, at.sample, l, h);
        const g = svg.append('g').attr('class', 'thumb').attr('tabindex', 0).attr('role', 'button').attr('aria-label', `layer ${l + 1}, head ${h + 1}`)
          .attr('aria-pressed', String(l === at.layer && h === at.head)).attr('transform', `translate(${left + h * (size + gap)} ${y})`);
        g.append('image').attr('width', size).attr('height', size).attr('preserveAspectRatio', 'none').attr('href', picture(map.rows, map.columns, (i) => heat(map.values[i]))).style('image-rendering', 'pixelated');
        g.append('rect').attr('class', l === at.layer && h === at.head ? 'chosen' : 'frame').attr('width', size).attr('height', size);
        const choose = () => {
          at.layer = l;
          at.head = h;
          draw();
          const again = all.svg.selectAll('.thumb').nodes().find((node) => node.getAttribute('aria-pressed') === 'true');
          if (again) again.focus({ preventScroll: true });
        };
        g.node().addEventListener('click', choose);
        g.node().addEventListener('keydown', (event) => {
          if (event.key !== 'Enter' && event.key !== ' ') return;
          event.preventDefault();
          choose();
        });
      });
    });
    all.say('Every map has its own scale, from 0 to its largest weight. Choose one to see it large.');
    return 20 + layers.length * (size + gap);
  }

  function drawControls() {
    const run = runOf();
    const set = (key) => (value) => {
      at[key] = value;
      draw();
    };
    const samples = run.inspect.samples.map((sample, i) => ({ value: i, text: `#${sample.index} ${className(sample.label)}` + (sample.label === sample.predicted ? ' ✓' : ` ✗ → ${className(sample.predicted)}`) }));
    const step = (by) => () => {
      at.sample = (at.sample + by + samples.length) % samples.length;
      draw();
    };
    const mean = el('input', { type: 'checkbox', checked: at.mean, onchange: () => {
      at.mean = mean.checked;
      input.redraw();
      cursor();
    } });
    controls.replaceChildren(choice('Attention', labels(), at.label, set('label')),
      el('span', { class: 'choice stepper' }, el('button', { type: 'button', 'aria-label': 'previous sample', onclick: step(-1) }, '‹'),
        choice('Sample', samples, at.sample, set('sample')), el('button', { type: 'button', 'aria-label': 'next sample', onclick: step(1) }, '›')),
      choice('Layer', sampleOf().layers.map((_, l) => ({ value: l, text: String(l + 1) })), at.layer, set('layer')),
      choice('Head', sampleOf().layers[at.layer].heads.map((_, h) => ({ value: h, text: String(h + 1) })), at.head, set('head')),
      el('label', { class: 'choice' }, mean, el('span', {}, 'mean over queries')));
    note.textContent = `Maps of seed ${run.seed}` + (run.inspect.total > samples.length ? `; ${samples.length} of the ${run.inspect.total} samples that the run kept.` : '.');
  }

  function draw() {
    const available = labels();
    body.parentNode.hidden = !available.length;
    if (!available.length) return;
    if (!available.includes(at.label)) at.label = available[0];
    const run = runOf();
    at.sample = Math.min(at.sample, run.inspect.samples.length - 1);
    at.layer = Math.min(at.layer, sampleOf().layers.length - 1);
    at.head = Math.min(at.head, sampleOf().layers[at.layer].heads.length - 1);
    at.query = Math.min(at.query, head().tokens - 1);
    const focus = document.activeElement && controls.contains(document.activeElement) ? [...controls.querySelectorAll('input,select,button')].indexOf(document.activeElement) : -1;
    drawControls();
    const again = [...controls.querySelectorAll('input,select,button')][focus];
    if (again) again.focus({ preventScroll: true });
    input.redraw();
    matrix.redraw();
    prediction.redraw();
    all.redraw();
  }
  views.push(draw);
}
