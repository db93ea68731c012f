// Who is taken for whom: rows are the truth, columns the predictions, shades are shares of the row.
function confusionSection(body) {
  const chosen = {label: null, seed: 'all', cell: null};
  const controls = el('div', {class: 'controls'});
  const plots = el('div', {class: 'figures two'});
  body.append(controls, plots);
  const matrix = figure(plots, {title: 'Confusion matrix', name: 'confusion', draw, keys, role: 'application'});
  const available = () => scoredGroups().filter((group) => group.runs.some((run) => run.result.test.confusion));
  let counts = [], names = [], frame = null;

  function draw(svg, width) {
    const group = available().find((g) => g.label === chosen.label);
    if (!group) return 10;
    const runs =
        group.runs.filter((run) => run.result.test.confusion && (chosen.seed === 'all' || run.seed === chosen.seed));
    names = runs[0].classNames;
    const n = names.length;
    counts = d3.range(n).map((r) => d3.range(n).map((c) => d3.sum(runs, (run) => run.result.test.confusion[r][c])));
    const chars = Math.min(d3.max(names, (name) => name.length), width < 480 ? 9 : 16);
    const left = 12 + 7 * chars, top = 12 + 5.2 * chars + 16, right = 4.2 * chars;
    const cell = Math.min(46, (width - left - right) / n);
    const size = cell * n;
    const every = Math.max(1, Math.ceil(11 / cell));
    for (let r = 0; r < n; ++r) {
      const total = d3.sum(counts[r]) || 1;
      for (let c = 0; c < n; ++c) {
        const share = counts[r][c] / total;
        if (counts[r][c])
          svg.append('rect')
              .attr('class', r === c ? 'hit' : 'miss')
              .attr('x', left + c * cell)
              .attr('y', top + r * cell)
              .attr('width', cell)
              .attr('height', cell)
              .style('fill-opacity', r === c ? 0.12 + 0.6 * share : 0.1 + 0.85 * Math.sqrt(share));
        if (cell >= 7.2 * String(counts[r][c]).length + 3 && cell >= 15 && counts[r][c])
          svg.append('text')
              .attr('class', 'value on-cell')
              .attr('x', left + (c + 0.5) * cell)
              .attr('y', top + (r + 0.5) * cell + 4)
              .attr('text-anchor', 'middle')
              .text(counts[r][c]);
      }
      if (r % every) continue;
      svg.append('text')
          .attr('class', 'name')
          .attr('x', left - 6)
          .attr('y', top + (r + 0.5) * cell + 4)
          .attr('text-anchor', 'end')
          .text(shortened(names[r], chars))
          .append('title')
          .text(names[r]);
      svg.append('text')
          .attr('class', 'name')
          .attr('transform', `translate(${left + (r + 0.5) * cell + 3} ${top - 6}) rotate(-45)`)
          .text(shortened(names[r], chars))
          .append('title')
          .text(names[r]);
    }
    for (let i = 0; i <= n; i += cell < 5 ? n : 1) {
      svg.append('line')
          .attr('class', 'rule')
          .attr('x1', left)
          .attr('x2', left + size)
          .attr('y1', top + i * cell)
          .attr('y2', top + i * cell);
      svg.append('line')
          .attr('class', 'rule')
          .attr('x1', left + i * cell)
          .attr('x2', left + i * cell)
          .attr('y1', top)
          .attr('y2', top + size);
    }
    svg.append('text').attr('class', 'axis-name').attr('x', 2).attr('y', 11).text('rows: truth, columns: prediction');
    frame = {left, top, cell, n, svg};
    cursor();
    return top + size + 4;
  }
  function cursor() {
    frame.svg.selectAll('.transient').remove();
    if (!chosen.cell) {
      matrix.say(
          'Counts on the test split' + (chosen.seed === 'all' ? ', summed over seeds' : '') +
          '. Point at a cell, or use the arrow keys.');
      return;
    }
    const [r, c] = chosen.cell.map((v) => Math.max(0, Math.min(frame.n - 1, v)));
    frame.svg.append('rect')
        .attr('class', 'transient chosen')
        .attr('x', frame.left + c * frame.cell)
        .attr('y', frame.top + r * frame.cell)
        .attr('width', frame.cell)
        .attr('height', frame.cell);
    const total = d3.sum(counts[r]);
    matrix.say(
        el('b', {}, names[r]), r === c ? ' recognised: ' : ' taken for ', r === c ? '' : el('b', {}, names[c]),
        r === c ? '' : ': ', `${counts[r][c]} of ${total} (${percent(total ? counts[r][c] / total : null)} %)`);
  }
  function keys(key) {
    const by = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[key];
    if (!by || !frame) return false;
    const [r, c] = chosen.cell || [0, 0];
    const inside = (v) => Math.max(0, Math.min(frame.n - 1, v));
    chosen.cell = chosen.cell ? [inside(r + by[0]), inside(c + by[1])] : [0, 0];
    cursor();
    return true;
  }
  matrix.svg.node().addEventListener('pointermove', (event) => {
    if (!frame) return;
    const [x, y] = pointer(event, matrix.svg);
    const [r, c] = [Math.floor((y - frame.top) / frame.cell), Math.floor((x - frame.left) / frame.cell)];
    chosen.cell = r >= 0 && c >= 0 && r < frame.n && c < frame.n ? [r, c] : null;
    cursor();
  });
  const scores = classScores(plots);
  const details = el('details', {}, el('summary', {}, 'Scores by class as a table'));
  body.append(details);

  views.push(() => {
    const groups = available();
    body.parentNode.hidden = !groups.length;
    if (!groups.length) return;
    if (!groups.some((group) => group.label === chosen.label)) chosen.label = groups[0].label;
    const seeds = distinct(groups.flatMap((group) => group.runs.map((run) => run.seed)));
    if (chosen.seed !== 'all' && !seeds.includes(chosen.seed)) chosen.seed = 'all';
    chosen.cell = null;
    const set = (key) => (value) => {
      chosen[key] = value;
      chosen.cell = null;
      if (key === 'label' && chosen.seed !== 'all' &&
          !groups.find((g) => g.label === value).runs.some((run) => run.seed === chosen.seed))
        chosen.seed = 'all';
      matrix.redraw();
    };
    controls.replaceChildren(
        groups.length > 1 ? choice(
                                'Matrix of', groups.map((group) => ({value: group.label, text: plotName(group)})),
                                chosen.label, set('label')) :
                            '',
        seeds.length > 1 ?
            choice(
                'Seed', [{value: 'all', text: 'all'}, ...seeds.map((seed) => ({value: seed, text: String(seed)}))],
                chosen.seed, set('seed')) :
            '');
    matrix.redraw();
    scores.redraw();
    details.replaceChildren(details.firstChild, classTable());
  });
}
