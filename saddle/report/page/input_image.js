// Tokens before those of the patches: squares, or words with their text, row by row.
function prefixBoxes(count, words, left, width) {
  const start = words ? 2 : left;
  const boxes = [];
  let x = start, y = 2;
  for (let token = 0; token < count; ++token) {
    const shown = words ? shortened(words[token] || '·', 24) : '';
    const size = words ? shown.length * 7.3 + 10 : 24;
    if (x + size > width - 2 && x > start) {
      x = start;
      y += 28;
    }
    boxes.push({token, shown, x, y, size});
    x += size + (words ? 3 : 6);
  }
  return {boxes, height: count ? y + 32 : 0};
}

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
  const {boxes: before, height: top} = prefixBoxes(layout.prefix, input.words, left, width);
  const cell = [wide / layout.columns, tall / layout.rows];
  const shade = (token) => Math.pow(weights.of(token) / weights.top, 0.8) * 0.82;
  const g = svg.append('g').selectAll('g').data(before).enter().append('g').attr(
      'transform', (b) => `translate(${b.x} ${b.y})`);
  g.append('rect')
      .attr('class', 'attended')
      .attr('width', (b) => b.size)
      .attr('height', 24)
      .style('fill-opacity', (b) => shade(b.token));
  g.append('rect')
      .attr('class', (b) => b.token === query ? 'query' : 'frame')
      .attr('width', (b) => b.size)
      .attr('height', 24);
  if (input.words)
    g.append('text')
        .attr('class', 'token')
        .attr('x', (b) => b.size / 2)
        .attr('y', 16)
        .attr('text-anchor', 'middle')
        .text((b) => b.shown);
  else if (layout.prefix)
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
    const word = before.find((b) => x >= b.x && x < b.x + b.size && y >= b.y && y < b.y + 24);
    if (y < top)
      token = word ? word.token : null;
    else if (x >= left && x < left + wide && y < top + tall)
      token = layout.prefix + Math.floor((y - top) / cell[1]) * layout.columns + Math.floor((x - left) / cell[0]);
    if (token !== null && token !== query) pick(token);
  };
  return {
    height: top + tall + 2,
    name(token) {
      if (token < layout.prefix && input.words) return `Token ${token} “${input.words[token] || 'padding'}”`;
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
