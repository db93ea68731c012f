// Learning curves: the mean over seeds as a line, the range of the seeds as a band.
function curveOf(group, split, metric, axis) {
  const points = new Map();
  for (const run of group.members) {
    const columns = run.metrics[split];
    if (!columns) continue;
    columns.epoch.forEach((epoch, i) => {
      // Seeds meet at epochs; evaluations within an epoch are told apart by the step.
      const key = axis === 'step' ? columns.step[i] : epoch;
      const value = columns[metric] ? columns[metric][i] : null;
      if (!known(value) || !known(key)) return;
      if (!points.has(key)) points.set(key, {key, values: [], seconds: []});
      points.get(key).values.push(value);
      if (known(columns.seconds[i])) points.get(key).seconds.push(columns.seconds[i]);
    });
  }
  return [...points.values()]
      .sort((a, b) => a.key - b.key)
      .map((p) => ({
             key: p.key,
             x: axis === 'seconds' ? d3.mean(p.seconds) : p.key,
             mean: d3.mean(p.values),
             low: d3.min(p.values),
             high: d3.max(p.values),
             std: p.values.length > 1 ? d3.deviation(p.values) : null,
             n: p.values.length
           }))
      .filter((p) => known(p.x));
}

function curvesSection(body) {
  const splits = ['validation', 'train', 'test'].filter((split) => model.runs.some((run) => run.metrics[split]));
  const inSteps = model.runs.some(
      (run) => Object.values(run.metrics).some((c) => c.step.every(known) && new Set(c.epoch).size < c.epoch.length));
  const chosen = {split: splits[0], axis: inSteps ? 'step' : 'epoch', scale: 'linear', part: 'all', at: null};
  const names = {validation: 'validation', train: 'train', test: 'test (leaky)'};
  const change = (key) => (value) => {
    chosen[key] = value;
    chosen.at = null;
    panels.forEach((panel) => panel.redraw());
  };
  body.append(
      el('div', {class: 'controls'},
         choice('Split', splits.map((split) => ({value: split, text: names[split]})), chosen.split, change('split')),
         choice('Against', [inSteps ? 'step' : 'epoch', {value: 'seconds', text: 'time'}], chosen.axis, change('axis')),
         choice('Show', ['all', 'second half'], chosen.part, change('part')),
         choice('Loss scale', ['linear', 'log'], chosen.scale, change('scale'))));
  const plots = el('div', {class: 'figures two'});
  body.append(plots);
  // Numbers that are predicted have an error and no accuracy.
  const measured = (metric) => model.runs.some(
      (run) => Object.values(run.metrics).some((columns) => columns[metric] && columns[metric].some(known)));
  const shares = measured('rmse') ? ['accuracy', 'rmse'].filter(measured) : ['accuracy'];
  const panels = [...shares, 'loss'].map((metric) => {
    const panel = figure(plots, {
      title: metric === 'rmse' ? 'RMSE' : metric[0].toUpperCase() + metric.slice(1),
      name: 'learning-curves-' + metric,
      draw,
      keys,
      legend: () => curves.map((curve) => curve.group),
      role: 'application'
    });
    let curves = [], positions = [], frame = null;
    const format = metric === 'accuracy' ? (v) => percent(v) + ' %' : fixed(3);
    function draw(svg, width) {
      const height = Math.max(220, Math.min(330, width * 0.58));
      const margin = {left: 44, right: 12, top: 20, bottom: 36};
      curves = shownGroups()
                   .map((group) => ({group, points: curveOf(group, chosen.split, metric, chosen.axis)}))
                   .filter((c) => c.points.length);
      if (chosen.part !== 'all') {
        const middle = d3.mean(d3.extent(curves.flatMap((curve) => curve.points), (p) => p.x));
        for (const curve of curves) curve.points = curve.points.filter((p) => p.x >= middle);
        curves = curves.filter((curve) => curve.points.length);
      }
      const all = curves.flatMap((curve) => curve.points);
      positions = distinct(all.map((p) => p.x)).sort((a, b) => a - b);
      const log = metric === 'loss' && chosen.scale === 'log' && d3.min(all, (p) => p.low) > 0;
      const x = d3.scaleLinear().domain(all.length ? d3.extent(positions) : [0, 1]).range([
        margin.left, width - margin.right
      ]);
      const domain = all.length ? [d3.min(all, (p) => p.low), d3.max(all, (p) => p.high)] : [0, 1];
      const y = (log ? d3.scaleLog() : d3.scaleLinear())
                    .domain(domain[0] === domain[1] ? [domain[0] - 0.01, domain[1] + 0.01] : domain)
                    .range([height - margin.bottom, margin.top])
                    .nice();
      axes(svg, {
        x,
        y,
        width,
        height,
        margin,
        whole: chosen.axis !== 'seconds',
        xName: chosen.axis === 'seconds' ? 'training time, s' : chosen.axis,
        yName: chosen.split + ({accuracy: ' accuracy, %', rmse: ' RMSE', loss: ' loss'})[metric],
        yFormat: metric === 'accuracy' ? (v) => percent(v, domain[1] - domain[0] < 0.05 ? 1 : 0) :
            log                        ? '.2~g' :
                                         null
      });
      const line = d3.line().x((p) => x(p.x)).y((p) => y(p.mean));
      const band = d3.area().x((p) => x(p.x)).y0((p) => y(p.low)).y1((p) => y(p.high));
      for (const {group, points} of curves) {
        if (points.some((p) => p.n > 1))
          svg.append('path').attr('class', 'band').attr('d', band(points)).style('fill', colour(group.label));
      }
      for (const {group, points} of curves) {
        svg.append('path')
            .attr('class', 'line')
            .attr('d', line(points))
            .style('stroke', colour(group.label))
            .style('stroke-dasharray', dashes(group.label));
        const last = points[points.length - 1];
        svg.append('path')
            .attr('class', 'point')
            .attr('transform', `translate(${x(last.x)} ${y(last.mean)})`)
            .attr('d', mark(group.label, 50))
            .style('fill', colour(group.label));
      }
      if (!all.length)
        svg.append('text')
            .attr('class', 'axis-name')
            .attr('x', width / 2)
            .attr('y', height / 2)
            .attr('text-anchor', 'middle')
            .text(`no ${chosen.split} ${metric} was recorded`);
      frame = {x, y, top: margin.top, bottom: height - margin.bottom, svg};
      cursor();
      return height;
    }
    // The line under the pointer, and what stands on it.
    function cursor() {
      frame.svg.selectAll('.transient').remove();
      if (chosen.at === null || !positions.length) {
        panel.say(seedsNote());
        return;
      }
      const at = positions[Math.max(0, Math.min(positions.length - 1, chosen.at))];
      frame.svg.append('line')
          .attr('class', 'cursor transient')
          .attr('x1', frame.x(at))
          .attr('x2', frame.x(at))
          .attr('y1', frame.top)
          .attr('y2', frame.bottom);
      const parts = [el('b', {}, `${chosen.axis === 'seconds' ? seconds(at) : chosen.axis + ' ' + at}: `)];
      for (const {group, points} of curves) {
        const i = d3.bisector((p) => p.x).left(points, at);
        const point = points[Math.min(
            points.length - 1, i > 0 && i < points.length && at - points[i - 1].x < points[i].x - at ? i - 1 : i)];
        frame.svg.append('circle')
            .attr('class', 'transient')
            .attr('cx', frame.x(point.x))
            .attr('cy', frame.y(point.mean))
            .attr('r', 4)
            .style('fill', colour(group.label));
        parts.push(el('span', {class: 'item'}, swatch(group.label), plusMinus(point, format)));
      }
      panel.say(parts);
    }
    function seedsNote() {
      const shown = curves.some((c) => c.points.some((p) => p.n > 1));
      return (shown ? 'Line: mean over seeds; band: lowest to highest seed.' : 'One seed per attention.') +
          ' Point at the plot, or use ← and →, for values.';
    }
    function keys(key) {
      if (!['ArrowLeft', 'ArrowRight', 'Home', 'End', 'Escape'].includes(key)) return false;
      const last = positions.length - 1;
      const from = chosen.at === null ? (key === 'ArrowLeft' ? last + 1 : -1) : chosen.at;
      chosen.at = {
        ArrowLeft: Math.max(0, from - 1),
        ArrowRight: Math.min(last, from + 1),
        Home: 0,
        End: last,
        Escape: null
      }[key];
      cursor();
      return true;
    }
    panel.svg.node().addEventListener('pointermove', (event) => {
      if (!positions.length) return;
      const at = frame.x.invert(pointer(event, panel.svg)[0]);
      const i = d3.bisectLeft(positions, at);
      chosen.at = i > 0 && (i === positions.length || at - positions[i - 1] < positions[i] - at) ? i - 1 : i;
      cursor();
    });
    panel.svg.node().addEventListener('pointerleave', () => {
      chosen.at = null;
      cursor();
    });
    return panel;
  });
  views.push(() => panels.forEach((panel) => panel.redraw()));
}
