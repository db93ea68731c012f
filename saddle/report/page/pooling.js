// Heads of different scales: the factor of every head, and which tokens a pooled key stands for.
function poolingSection(body) {
  const holder = el('div', {class: 'figures two'});
  body.append(holder);
  views.push(() => {
    const runs = model.groups.filter((g) => g.data === state.data && !state.hidden.has(g.label))
                     .map((g) => g.members.find((run) => run.inspect && run.inspect.pooling.length))
                     .filter(Boolean);
    body.parentNode.hidden = !runs.length;
    holder.replaceChildren();
    for (const run of runs) pooledKeys(holder, run).redraw();
  });
}

function pooledKeys(parent, run) {
  const {pooling, grid} = run.inspect;
  const same = pooling.every((layer) => String(layer.factors) === String(pooling[0].factors));
  const plot = figure(parent, {title: shortened(run.label, 60), name: 'pooled-keys-' + run.label, draw});
  function draw(svg, width) {
    const gap = 16, head = 34;
    const size = grid ? Math.min(150, Math.max(90, (width - 2 * gap) / 3)) : width;
    const block = head + (grid ? size * grid.rows / grid.columns : 18) + gap;
    const across = grid ? Math.max(1, Math.floor((width + gap) / (size + gap))) : 1;
    let y = 0;
    for (const layer of same ? [pooling[0]] : pooling) {
      svg.append('text')
          .attr('class', 'name strong')
          .attr('x', 0)
          .attr('y', y + 13)
          .text(
              (same ? `All ${pooling.length} layers` : `Layer ${layer.layer + 1}`) +
              `: factors ${layer.factors.join(', ')}`);
      y += 22;
      const factors = distinct(layer.factors).sort((a, b) => a - b);
      factors.forEach((factor, i) => {
        const x0 = (i % across) * (size + gap), y0 = y + Math.floor(i / across) * block;
        const heads = layer.factors.map((f, h) => f === factor ? h + 1 : 0).filter(Boolean);
        const group = layer.groups[factor];
        svg.append('text')
            .attr('class', 'axis-name')
            .attr('x', x0)
            .attr('y', y0 + 12)
            .text(`head${heads.length > 1 ? 's' : ''} ${heads.join(', ')}`);
        svg.append('text')
            .attr('class', 'axis-name')
            .attr('x', x0)
            .attr('y', y0 + 26)
            .text(
                factor === 1 ? 'not pooled' :
                               '÷' + factor + (group ? `: ${group.length} → ${d3.max(group) + 1} keys` : ''));
        if (group)
          (grid ? drawGroupGrid : drawGroupStrip)(
              svg.append('g').attr('transform', `translate(${x0} ${y0 + head})`), size, group, grid);
      });
      y += Math.ceil(factors.length / across) * block;
    }
    plot.say('Tokens inside one border share one key and one value, the mean of theirs. Queries are never pooled.');
    return y;
  }
  return plot;
}

// Patches of one pooled key form a block.
function drawGroupGrid(g, size, group, grid) {
  const cell = size / grid.columns;
  const at = (r, c) =>
      r < 0 || c < 0 || r >= grid.rows || c >= grid.columns ? null : group[grid.prefix + r * grid.columns + c];
  const sides = [[0, -1, 0, 0, 0, 1], [-1, 0, 0, 0, 1, 0], [0, 1, 1, 0, 1, 1], [1, 0, 0, 1, 1, 1]];
  const lines = {inner: [], border: []};
  for (let r = 0; r < grid.rows; ++r)
    for (let c = 0; c < grid.columns; ++c) {
      const own = at(r, c);
      g.append('rect')
          .attr('class', own < 0 ? 'left-out' : 'pooled')
          .attr('x', c * cell)
          .attr('y', r * cell)
          .attr('width', cell)
          .attr('height', cell);
      for (const [dr, dc, x1, y1, x2, y2] of sides)
        lines[at(r + dr, c + dc) === own ? 'inner' : 'border'].push(
            `M${(c + x1) * cell},${(r + y1) * cell}L${(c + x2) * cell},${(r + y2) * cell}`);
    }
  for (const name of ['inner', 'border']) g.append('path').attr('class', name).attr('d', lines[name].join(''));
}

// The first tokens of a sequence, enough to see the windows.
function drawGroupStrip(g, size, group) {
  const cell = 12, shown = Math.min(group.length, Math.floor(size / cell));
  for (let t = 0; t < shown; ++t) {
    g.append('rect')
        .attr('class', group[t] < 0 ? 'left-out' : 'pooled')
        .attr('x', t * cell)
        .attr('width', cell)
        .attr('height', 18);
    g.append('path').attr('class', t && group[t] === group[t - 1] ? 'inner' : 'border').attr('d', `M${t * cell},0V18`);
  }
  g.append('path')
      .attr('class', 'border')
      .attr('d', `M0,0H${shown * cell}` + (shown === group.length ? 'V18' : `M${shown * cell},18`) + 'H0');
}
