// How different the heads of a layer are: the smaller the distance between their outputs, the more they repeat each
// other.
function headsSection(body) {
  const plots = el('div', {class: 'figures two'});
  body.append(plots);
  const panels =
      ['train', 'test']
          .filter((split) => model.groups.some((g) => g.runs.some((run) => headDistance(run.result, split) !== null)))
          .map((split) => headsPlot(plots, split));
  views.push(() => panels.forEach((panel) => panel.redraw()));
}

function headsPlot(parent, split) {
  const plot = figure(
      parent,
      {title: `Distance between heads, ${split} split`, name: 'head-distance-' + split, draw, legend: scoredGroups});
  function draw(svg, width) {
    const groups = scoredGroups().filter((g) => g.runs.some((run) => headDistance(run.result, split) !== null));
    const rows = groups.map((group) => {
      const layers = new Map();
      for (const run of group.runs)
        for (const layer of (run.result.head_distance || {})[split] || []) {
          if (!layers.has(layer.layer)) layers.set(layer.layer, []);
          layers.get(layer.layer).push(layer);
        }
      return {
        group,
        layers:
            [...layers]
                .sort((a, b) => a[0] - b[0])
                .map(([layer, list]) => ({layer, mean: d3.mean(list, (l) => l.mean), std: d3.mean(list, (l) => l.std)}))
      };
    });
    const all = rows.flatMap((row) => row.layers);
    const height = Math.max(220, Math.min(320, width * 0.45));
    const margin = {left: 44, right: 12, top: 22, bottom: 36};
    const layers = distinct(all.map((l) => l.layer)).sort((a, b) => a - b);
    const x = d3.scalePoint().domain(layers).range([margin.left, width - margin.right]).padding(0.5);
    const y =
        d3.scaleLinear()
            .domain([Math.min(0, d3.min(all, (l) => l.mean - l.std) || 0), d3.max(all, (l) => l.mean + l.std) || 1])
            .nice()
            .range([height - margin.bottom, margin.top]);
    axes(svg, {
      x,
      y,
      width,
      height,
      margin,
      xName: 'layer',
      yName: 'L2 distance between outputs of heads',
      xFormat: (l) => l + 1
    });
    const offset = (i) => (i - (rows.length - 1) / 2) * Math.min(14, (x.step() || 60) * 0.7 / Math.max(1, rows.length));
    rows.forEach(({group, layers: list}, i) => {
      const at = (l) => x(l.layer) + offset(i);
      svg.append('path')
          .attr('class', 'line faint')
          .attr('d', d3.line().x(at).y((l) => y(l.mean))(list))
          .style('stroke', colour(group.label));
      for (const l of list) {
        svg.append('line')
            .attr('class', 'whisker thin')
            .attr('x1', at(l))
            .attr('x2', at(l))
            .attr('y1', y(l.mean - l.std))
            .attr('y2', y(l.mean + l.std))
            .style('stroke', colour(group.label));
        svg.append('path')
            .attr('class', 'point')
            .attr('transform', `translate(${at(l)} ${y(l.mean)})`)
            .attr('d', mark(group.label))
            .style('fill', colour(group.label))
            .append('title')
            .text(`${group.label}, layer ${l.layer + 1}: ${l.mean.toFixed(2)} ± ${l.std.toFixed(2)}`);
      }
    });
    plot.say(
        rows.length ? 'Mean over pairs of heads and over seeds; whiskers: one standard deviation over pairs. ' +
                'Heads that repeat each other are close.' :
                      'Not recorded for these runs.');
    return height;
  }
  return plot;
}
