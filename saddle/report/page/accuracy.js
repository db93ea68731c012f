// The accuracy of every seed as a point: spread that a mean would hide.
function accuracyPlot(parent) {
  const strip = figure(parent, {title: 'Test accuracy of every seed', name: 'accuracy', draw: drawStrip});
  function drawStrip(svg, width) {
    const groups = scoredGroups();
    const wide = width > 560;
    const row = wide ? Math.max(34, Math.min(56, 270 / Math.max(1, groups.length))) : 32, top = 8, bottom = 34;
    const right = 14, left = 10;
    const names = wide ? Math.min(width * 0.42, 14 + 7.3 * (d3.max(groups, (g) => plotName(g).length) || 0)) : 0;
    const step = wide ? row : row + 18;
    const height = top + step * Math.max(1, groups.length) + bottom;
    const values = groups.flatMap((g) => g.runs.map((run) => run.result.test.accuracy));
    const [low, high] = d3.extent(values.length ? values : [0, 1]);
    const x =
        d3.scaleLinear()
            .domain([Math.max(0, low - 0.15 * (high - low) - 0.002), Math.min(1, high + 0.15 * (high - low) + 0.002)])
            .range([left + names + 6, width - right - 96]);
    const axis = svg.append('g').attr('class', 'axis').attr('transform', `translate(0 ${height - bottom})`);
    axis.call(d3.axisBottom(x)
                  .ticks(Math.max(2, width / 120))
                  .tickFormat((v) => percent(v, 1))
                  .tickSize(-(height - bottom - top))
                  .tickPadding(6));
    axis.select('.domain').remove();
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', x.range()[1])
        .attr('y', height - 2)
        .attr('text-anchor', 'end')
        .text('test accuracy, %');
    groups.forEach((group, i) => {
      const y = top + step * (i + 1) - row / 2;
      const s = over(group, (r) => r.test.accuracy);
      const chars = Math.floor((wide ? names : width - 20) / 7.2);
      svg.append('text')
          .attr('class', 'name')
          .attr('x', left)
          .attr('y', wide ? y + 4 : y - row / 2 + 2)
          .text(shortened(plotName(group), chars))
          .append('title')
          .text(group.label);
      if (known(s.std))
        svg.append('line')
            .attr('class', 'whisker')
            .attr('x1', x(s.mean - s.std))
            .attr('x2', x(s.mean + s.std))
            .attr('y1', y)
            .attr('y2', y)
            .style('stroke', colour(group.label));
      svg.append('line')
          .attr('class', 'mean')
          .attr('x1', x(s.mean))
          .attr('x2', x(s.mean))
          .attr('y1', y - 9)
          .attr('y2', y + 9)
          .style('stroke', colour(group.label));
      svg.append('g')
          .selectAll('path')
          .data(group.runs)
          .enter()
          .append('path')
          .attr('class', 'point')
          .attr('transform', (run) => `translate(${x(run.result.test.accuracy)} ${y})`)
          .attr('d', mark(group.label, 44))
          .style('fill', colour(group.label))
          .append('title')
          .text((run) => `seed ${run.seed}: ${percent(run.result.test.accuracy, 2)} %`);
      svg.append('text')
          .attr('class', 'value')
          .attr('x', width - right)
          .attr('y', y + 4)
          .attr('text-anchor', 'end')
          .text(plusMinus(s, percent));
    });
    strip.say(
        groups.length ? `A point is a seed, the bar their mean, the line one standard deviation to each side; ${
                            seedsText(groups)}.` :
                        'No finished run to show.');
    return height;
  }
  return strip;
}
