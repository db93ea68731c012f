// An image whose patches are shaded by the attention they get; the query is outlined. Prefix tokens stand above.
function drawImageInput(svg, width, {input, grid, tokens, weights, query, pick}) {
  if (!input.pixels) {
    const bytes = decode(input.values), plane = input.rows * input.columns;
    input.pixels = picture(input.rows, input.columns, (i) => input.channels < 3 ? [bytes[i], bytes[i], bytes[i]] : [
      bytes[i], bytes[plane + i], bytes[2 * plane + i]
    ]);
  }
  const layout = grid || {prefix: 0, rows: 1, columns: tokens};
  const wide = Math.min(width, 380 * Math.max(1, input.columns / input.rows)), tall = wide * input.rows / input.columns;
  const left = (width - wide) / 2;
  const top = layout.prefix ? 34 : 0;
  const cell = [wide / layout.columns, tall / layout.rows];
  const shade = (token) => Math.pow(weights.of(token) / weights.top, 0.8) * 0.82;
  for (let t = 0; t < layout.prefix; ++t) {
    svg.append('rect')
        .attr('class', 'attended')
        .attr('x', left + 30 * t)
        .attr('y', 2)
        .attr('width', 24)
        .attr('height', 24)
        .style('fill-opacity', shade(t));
    svg.append('rect')
        .attr('class', t === query ? 'query' : 'frame')
        .attr('x', left + 30 * t)
        .attr('y', 2)
        .attr('width', 24)
        .attr('height', 24);
  }
  if (layout.prefix)
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', left + 30 * layout.prefix + 4)
        .attr('y', 18)
        .text(layout.prefix === 1 ? 'class token' : 'prefix tokens');
  svg.append('image')
      .attr('x', left)
      .attr('y', top)
      .attr('width', wide)
      .attr('height', tall)
      .attr('preserveAspectRatio', 'none')
      .attr('href', input.pixels)
      .style('image-rendering', 'pixelated');
  const boxes = d3.range(layout.rows * layout.columns).map((i) => ({
                                                             token: layout.prefix + i,
                                                             x: left + (i % layout.columns) * cell[0],
                                                             y: top + Math.floor(i / layout.columns) * cell[1]
                                                           }));
  svg.append('g')
      .selectAll('rect')
      .data(boxes)
      .enter()
      .append('rect')
      .attr('class', 'attended')
      .attr('x', (b) => b.x)
      .attr('y', (b) => b.y)
      .attr('width', cell[0])
      .attr('height', cell[1])
      .style('fill-opacity', (b) => shade(b.token));
  const chosen = boxes.find((b) => b.token === query);
  if (chosen)
    svg.append('rect')
        .attr('class', 'query')
        .attr('x', chosen.x)
        .attr('y', chosen.y)
        .attr('width', cell[0])
        .attr('height', cell[1]);
  svg.append('rect').attr('class', 'frame').attr('x', left).attr('y', top).attr('width', wide).attr('height', tall);
  svg.node().onpointermove = svg.node().onpointerdown = (event) => {
    const [x, y] = pointer(event, svg);
    let token = null;
    if (y < top)
      token = Math.floor((x - left) / 30) < layout.prefix && x >= left ? Math.floor((x - left) / 30) : null;
    else if (x >= left && x < left + wide && y < top + tall)
      token = layout.prefix + Math.floor((y - top) / cell[1]) * layout.columns + Math.floor((x - left) / cell[0]);
    if (token !== null && token !== query) pick(token);
  };
  return {
    height: top + tall + 2,
    name(token) {
      if (token < layout.prefix) return layout.prefix === 1 ? 'The class token' : `Prefix token ${token + 1}`;
      const patch = token - layout.prefix;
      return `Patch ${Math.floor(patch / layout.columns) + 1}, ${patch % layout.columns + 1}`;
    },
    pooled: (factor) => `${factor} × ${factor} patches`,
    move(token, key) {
      if (key === 'Home') return 0;
      if (key === 'End') return tokens - 1;
      const by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -layout.columns, ArrowDown: layout.columns}[key];
      if (by === undefined) return null;
      return token < layout.prefix && by > 1 ? layout.prefix : token + by < layout.prefix && by < -1 ? 0 : token + by;
    },
  };
}
