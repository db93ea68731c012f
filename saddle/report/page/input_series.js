// A series: its channels as lines, the attention as shading behind them and as a profile below.
function drawSeriesInput(svg, width, {input, tokens, weights, query, pick}) {
  const channels = input.values.length;
  const apart = channels <= 6;
  const margin = {left: 4, right: 4}, row = apart ? Math.max(46, 210 / channels) : 230, profile = 46;
  const panels = apart ? d3.range(channels).map((c) => [c]) : [d3.range(channels)];
  const height = row * panels.length + profile + 34;
  // A token is a step, or a patch of several.
  const steps = Math.max(1, tokens < input.length ? input.length / tokens : 1);
  const x = d3.scaleLinear().domain([0, input.length]).range([margin.left, width - margin.right]);
  const cells = d3.range(Math.min(tokens, Math.ceil(input.length / steps)));
  const from = (token) => x(token * steps), size = Math.max(0.5, x(steps) - x(0));
  svg.append('g')
      .selectAll('rect')
      .data(cells)
      .enter()
      .append('rect')
      .attr('class', 'attended')
      .attr('x', from)
      .attr('y', 0)
      .attr('width', size + 0.4)
      .attr('height', row * panels.length)
      .style('fill-opacity', (t) => 0.75 * weights.of(t) / weights.top);
  panels.forEach((panel, p) => {
    const values = panel.flatMap((c) => input.values[c]).filter(known);
    const y = d3.scaleLinear().domain(d3.extent(values)).range([row * (p + 1) - 6, row * p + 8]);
    for (const c of panel)
      svg.append('path')
          .attr('class', 'line ink')
          .attr('d', d3.line().defined(known).x((_, i) => x(i + 0.5)).y((v) => y(v))(input.values[c]));
    const name = apart ? (input.channel_names || [])[panel[0]] || (channels > 1 ? 'channel ' + (panel[0] + 1) : '') :
                         `${channels} channels`;
    svg.append('text').attr('class', 'name').attr('x', margin.left + 4).attr('y', row * p + 13).text(name);
    svg.append('line')
        .attr('class', 'rule')
        .attr('x1', 0)
        .attr('x2', width)
        .attr('y1', row * (p + 1))
        .attr('y2', row * (p + 1));
  });
  const base = row * panels.length + profile;
  const y = d3.scaleLinear().domain([0, weights.top]).range([base, base - profile + 10]);
  svg.append('g')
      .selectAll('rect')
      .data(cells)
      .enter()
      .append('rect')
      .attr('class', 'profile')
      .attr('x', from)
      .attr('width', Math.max(0.5, size - 0.5))
      .attr('y', (t) => y(weights.of(t)))
      .attr('height', (t) => base - y(weights.of(t)));
  const axis = svg.append('g').attr('class', 'axis bare').attr('transform', `translate(0 ${base})`);
  axis.call(d3.axisBottom(x).ticks(Math.max(2, width / 90)).tickSize(4));
  svg.append('text')
      .attr('class', 'axis-name')
      .attr('x', width - 2)
      .attr('y', base + 31)
      .attr('text-anchor', 'end')
      .text('time step; bars: attention');
  if (query !== null)
    svg.append('rect')
        .attr('class', 'query')
        .attr('x', from(query))
        .attr('y', 1)
        .attr('width', Math.max(2, size))
        .attr('height', base - 1);
  svg.node().onpointermove = svg.node().onpointerdown = (event) => {
    const token = Math.floor(x.invert(pointer(event, svg)[0]) / steps);
    if (token >= 0 && token < cells.length && token !== query) pick(token);
  };
  return {
    height,
    name: (token) => steps > 1 ? `Steps ${Math.floor(token * steps)} to ${Math.ceil((token + 1) * steps) - 1}` :
        token < input.length ? `Step ${token}` :
                               `Padding ${token}`,
    pooled: (factor) => `${factor} steps`,
    move: (token, key) => ({
      ArrowLeft: token - 1,
      ArrowRight: token + 1,
      ArrowUp: token - 10,
      ArrowDown: token + 10,
      Home: 0,
      End: cells.length - 1
    }[key] ?? null),
  };
}
