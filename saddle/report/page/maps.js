// Attention maps, browsed by attention, sample, layer, head and query, with the input beside them.

function mapsSection(body) {
  const at = {label: null, sample: 0, layer: 0, head: 0, query: 0, mean: false};
  const controls = el('div', {class: 'controls'});
  const plots = el('div', {class: 'figures maps'});
  body.append(controls, plots);
  const runOf = () => model.runs.find(
      (run) => run.data === state.data && run.label === at.label && run.inspect && run.inspect.samples.length);
  const labels = () =>
      model.groups
          .filter((g) => g.data === state.data && g.members.some((run) => run.inspect && run.inspect.samples.length))
          .map((g) => g.label);
  const sampleOf = () => runOf().inspect.samples[at.sample];
  const head = () => readMap(runOf().number, at.sample, at.layer, at.head);
  const className = (label) => label === undefined ? 'unknown' : runOf().classNames[label];

  const input =
      figure(plots, {title: 'Input', name: 'attention-input', draw: drawInput, keys: inputKeys, role: 'application'});
  const matrix = figure(
      plots, {title: 'Attention map', name: 'attention-map', draw: drawMatrix, keys: matrixKeys, role: 'application'});
  const aside = el('div', {class: 'stack'});
  plots.append(aside);
  const prediction = figure(aside, {title: 'Prediction', name: 'prediction', draw: drawPrediction});
  const all = figure(aside, {title: 'All layers and heads', name: 'attention-heads', draw: drawAll, role: 'group'});
  const note = el('p', {class: 'readout'});
  body.append(note);

  let reader = null;  // of the input: moves the query
  function drawInput(svg, width) {
    const run = runOf();
    const weights = weightsOf(head(), at.mean ? null : at.query);
    const entry = report.inputs[sampleOf().input];
    const kinds = {image: drawImageInput, series: drawSeriesInput, tokens: drawTokensInput};
    reader = kinds[entry.kind](
        svg, width,
        {input: entry, grid: run.inspect.grid, tokens: head().tokens, weights, query: at.mean ? null : at.query, pick});
    const share = weights.of(at.query);
    input.say(at.mean ? `Mean over all queries; the largest is ${weights.max.toFixed(3)}.` : [
      el('b', {}, reader.name(at.query)),
      ` is the query: largest weight ${weights.max.toFixed(3)}, to itself ${share.toFixed(3)}` +
          (head().factor > 1 ? `; a key stands for ${reader.pooled(head().factor)}.` : '.') +
          ' Point at another, or use the arrow keys.'
    ]);
    return reader.height;
  }
  function inputKeys(key) {
    const to = reader.move(at.query, key);
    if (to === null) return false;
    pick(to);
    const box = input.svg.select('.query').node();
    if (box) box.scrollIntoView({block: 'nearest'});
    return true;
  }
  function matrixKeys(key) {
    const step = Math.max(1, Math.round((head().map.scale || [1])[0]));
    const to = {ArrowUp: at.query - step, ArrowDown: at.query + step, Home: 0, End: head().tokens - 1}[key];
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
    const {map} = head();
    const margin = {left: 34, top: 18, right: 8, bottom: 44};
    const room = width - margin.left - margin.right;
    const tall = Math.min(room, 400);
    const wide = Math.min(room, tall * Math.min(1, Math.max(0.25, map.columns / map.rows)));
    svg.append('image')
        .attr('x', margin.left)
        .attr('y', margin.top)
        .attr('width', wide)
        .attr('height', tall)
        .attr('preserveAspectRatio', 'none')
        .attr('href', mapPicture(map))
        .style('image-rendering', 'pixelated');
    svg.append('rect')
        .attr('class', 'frame')
        .attr('x', margin.left)
        .attr('y', margin.top)
        .attr('width', wide)
        .attr('height', tall);
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', margin.left)
        .attr('y', 11)
        .text(
            `keys: ${Math.round(map.columns * (map.scale || [1, 1])[1])}` + (head().factor > 1 ? ' pooled' : '') +
            ' →');
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('transform', `translate(${margin.left - 8} ${margin.top}) rotate(-90)`)
        .attr('text-anchor', 'end')
        .text(`← queries: ${head().tokens}`);
    const y = margin.top + tall + 12;
    const bar = Math.min(150, wide);
    svg.append('image')
        .attr('x', margin.left)
        .attr('y', y)
        .attr('width', bar)
        .attr('height', 8)
        .attr('preserveAspectRatio', 'none')
        .attr('href', picture(1, 256, heat));
    svg.append('text').attr('class', 'value').attr('x', margin.left).attr('y', y + 22).text('0');
    svg.append('text')
        .attr('class', 'value')
        .attr('x', margin.left + bar)
        .attr('y', y + 22)
        .attr('text-anchor', 'end')
        .text(map.top.toFixed(3));
    drawMatrix.box = {left: margin.left, top: margin.top, wide, tall};
    matrix.say('A row is a query, a column a key. ↑ and ↓ move the query.');
    cursor();
    return y + 28;
  }
  function cursor() {
    const {left, top, wide, tall} = drawMatrix.box;
    matrix.svg.selectAll('.transient').remove();
    if (at.mean) return;
    const h = head();
    matrix.svg.append('rect')
        .attr('class', 'transient chosen')
        .attr('x', left - 1)
        .attr('y', top + tall * h.row(at.query) / h.map.rows - 1)
        .attr('width', wide + 2)
        .attr('height', Math.max(3, tall / h.map.rows + 2));
  }
  matrix.svg.node().addEventListener('pointermove', (event) => {
    const {left, top, wide, tall} = drawMatrix.box;
    const [x, y] = pointer(event, matrix.svg);
    if (x < left || x >= left + wide || y < top || y >= top + tall) return;
    const h = head();
    const row = Math.floor((y - top) / tall * h.map.rows), column = Math.floor((x - left) / wide * h.map.columns);
    matrix.say(`query ${row}, key ${column}: ${h.at(row, column).toFixed(4)}`);
    if (event.buttons || event.pointerType === 'mouse') pick(Math.round(row * (h.map.scale || [1])[0]));
  });

  function drawPrediction(svg, width) {
    prediction.say(verdict(sampleOf(), className));
    return drawProbabilities(svg, width, sampleOf(), className);
  }
  function drawAll(svg, width) {
    all.say(
        'Every map has its own scale, from 0 to its largest weight or three times its mean. Choose one to see it large.');
    return drawThumbnails(svg, width, runOf(), at.sample, at, (layer, head) => {
      Object.assign(at, {layer, head});
      draw();
    });
  }

  function drawControls() {
    const run = runOf();
    const set = (key) => (value) => {
      at[key] = value;
      draw();
    };
    const samples =
        run.inspect.samples.map((sample, i) => ({
                                  value: i,
                                  text: `#${sample.index} ${className(sample.label)}` +
                                      (sample.label === sample.predicted ? ' ✓' : ` ✗ → ${className(sample.predicted)}`)
                                }));
    const step = (by) => () => {
      at.sample = (at.sample + by + samples.length) % samples.length;
      draw();
    };
    const mean = el('input', {
      type: 'checkbox',
      checked: at.mean,
      onchange: () => {
        at.mean = mean.checked;
        input.redraw();
        cursor();
      }
    });
    controls.replaceChildren(
        choice('Attention', labels(), at.label, set('label')),
        el('span', {class: 'choice stepper'},
           el('button', {type: 'button', 'aria-label': 'previous sample', onclick: step(-1)}, '‹'),
           choice('Sample', samples, at.sample, set('sample')),
           el('button', {type: 'button', 'aria-label': 'next sample', onclick: step(1)}, '›')),
        choice('Layer', sampleOf().layers.map((_, l) => ({value: l, text: String(l + 1)})), at.layer, set('layer')),
        choice(
            'Head', sampleOf().layers[at.layer].heads.map((_, h) => ({value: h, text: String(h + 1)})), at.head,
            set('head')),
        el('label', {class: 'choice'}, mean, el('span', {}, 'mean over queries')));
    note.textContent = `Maps of seed ${run.seed}` +
        (run.inspect.total > samples.length ?
             `; ${samples.length} of the ${run.inspect.total} samples that the run kept.` :
             '.');
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
    const focus = document.activeElement && controls.contains(document.activeElement) ?
        [...controls.querySelectorAll('input,select,button')].indexOf(document.activeElement) :
        -1;
    drawControls();
    const again = [...controls.querySelectorAll('input,select,button')][focus];
    if (again) again.focus({preventScroll: true});
    input.redraw();
    matrix.redraw();
    prediction.redraw();
    all.redraw();
  }
  views.push(draw);
}
