// Accuracy against cost: who is not beaten in both.
function costSection(body) {
  const available =
      costs.filter((cost) => model.groups.some((group) => group.runs.some((run) => known(cost.value(run.result)))));
  const chosen = {cost: available[0]};
  const plots = el('div', {class: 'figures two'});
  body.append(plots);
  const strip = accuracyPlot(plots);
  views.push(() => strip.redraw());
  if (model.labels.length < 2 || !available.length) return;
  const plot = figure(plots, {
    title: 'Accuracy against cost',
    name: 'accuracy-against-cost',
    draw,
    legend: scoredGroups,
    controls: choice(
        'Cost', available.map((cost) => ({value: cost, text: cost.name})), chosen.cost,
        (cost) => {
          chosen.cost = cost;
          plot.redraw();
        })
  });
  function draw(svg, width) {
    const height = Math.max(260, Math.min(400, width * 0.56));
    const margin = {left: 48, right: 16, top: 24, bottom: 40};
    const points =
        scoredGroups()
            .map((group) => ({group, cost: over(group, chosen.cost.value), score: over(group, (r) => r.test.accuracy)}))
            .filter((p) => known(p.cost.mean) && known(p.score.mean));
    const [cheap, dear] = d3.extent(points, (p) => p.cost.mean);
    const log = cheap > 0 && dear / cheap > 20;
    const gap = points.length ? (dear - cheap || dear * 0.2 || 1) : 1;
    const x = log ?
        d3.scaleLog().domain([cheap / 1.6, dear * 1.6]) :
        d3.scaleLinear().domain(points.length ? [Math.max(0, cheap - 0.15 * gap), dear + 0.25 * gap] : [0, 1]);
    x.range([margin.left, width - margin.right]);
    const low = d3.min(points, (p) => p.score.mean - (p.score.std || 0)),
          high = d3.max(points, (p) => p.score.mean + (p.score.std || 0));
    const y =
        d3.scaleLinear()
            .domain(points.length ? [low - 0.15 * (high - low) - 0.002, high + 0.15 * (high - low) + 0.002] : [0, 1])
            .range([height - margin.bottom, margin.top]);
    const format = chosen.cost.format;
    axes(svg, {
      x,
      y,
      width,
      height,
      margin,
      xName: [chosen.cost.name, chosen.cost.unit].filter(Boolean).join(', ') + (log ? ', log scale' : ''),
      yName: 'test accuracy, %',
      xFormat: format,
      yFormat: (v) => percent(v, 1),
      xTicks: Math.max(2, Math.floor(width / 130))
    });
    // Leaky figures are shown, but the front is that of honest ones unless there are none.
    const rivals = points.some((p) => !leaky(p.group)) ? points.filter((p) => !leaky(p.group)) : points;
    const front = rivals
                      .filter(
                          (p) => !rivals.some(
                              (o) => o !== p && o.cost.mean <= p.cost.mean && o.score.mean >= p.score.mean &&
                                  (o.cost.mean < p.cost.mean || o.score.mean > p.score.mean)))
                      .sort((a, b) => a.cost.mean - b.cost.mean);
    if (front.length > 1)
      svg.append('path')
          .attr('class', 'front')
          .attr('d', d3.line().curve(d3.curveStepAfter).x((p) => x(p.cost.mean)).y((p) => y(p.score.mean))(front));
    for (const p of points) {
      const g = svg.append('g')
                    .attr('transform', `translate(${x(p.cost.mean)} ${y(p.score.mean)})`)
                    .style('stroke', colour(p.group.label));
      if (known(p.score.std))
        g.append('line')
            .attr('class', 'whisker thin')
            .attr('y1', y(p.score.mean + p.score.std) - y(p.score.mean))
            .attr('y2', y(p.score.mean - p.score.std) - y(p.score.mean))
            .style('stroke', colour(p.group.label));
      if (known(p.cost.std))
        g.append('line')
            .attr('class', 'whisker thin')
            .attr('x1', x(Math.max(cheap / 2, p.cost.mean - p.cost.std)) - x(p.cost.mean))
            .attr('x2', x(p.cost.mean + p.cost.std) - x(p.cost.mean))
            .style('stroke', colour(p.group.label));
      g.append('path')
          .attr('class', 'point')
          .attr('d', mark(p.group.label, front.includes(p) ? 110 : 70))
          .style('fill', colour(p.group.label))
          .append('title')
          .text(`${p.group.label}: ${plusMinus(p.score, percent)} %, ${plusMinus(p.cost, format)}`);
    }
    const roomy = width > 520;
    if (roomy)
      labels(
          svg, points.map((p) => ({
                            x: x(p.cost.mean),
                            y: y(p.score.mean),
                            text: shortened(plotName(p.group), Math.floor(width / 16)),
                            label: p.group.label
                          })),
          width - margin.right, margin.top);
    const names = roomy ?
        [] :
        points.map((p) => el('span', {class: 'item'}, swatch(p.group.label), el('code', {}, plotName(p.group))));
    const beaten = `${plural(front.length, 'attention')} on the front: no other is both cheaper and better. `;
    const lines = `Lines show one standard deviation over ${seedsText(points.map((p) => p.group))}.`;
    plot.say(names, points.length ? beaten + lines : 'No finished run to show.');
    return height;
  }
  views.push(() => plot.redraw());
}

// Names beside points; a name that would cover another moves down.
function labels(svg, points, right, top) {
  const taken = [];
  for (const p of points.sort((a, b) => a.y - b.y)) {
    const length = 6.8 * p.text.length;
    const left = p.x + 10 + length > right;
    const from = left ? Math.max(2, p.x - 10 - length) : p.x + 10;
    let y = Math.max(top + 4, p.y - 5);
    for (let moved = true; moved;) {
      moved = false;
      for (const other of taken)
        if (from < other.to && from + length > other.from && Math.abs(y - other.y) < 13) {
          y = other.y + 13;
          moved = true;
        }
    }
    taken.push({from, to: from + length, y});
    svg.append('text').attr('class', 'name halo').attr('x', from).attr('y', y).text(p.text);
  }
}
