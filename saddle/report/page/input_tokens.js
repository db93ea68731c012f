// Text, token by token, each on a background as strong as the attention it gets.
function drawTokensInput(svg, width, {input, tokens, weights, query, pick}) {
  const letter = 7.3, row = 24, padding = 5;
  const boxes = [];
  let x = 2, y = 2;
  input.text.slice(0, tokens).forEach((text, token) => {
    const shown = text === '' || text === ' ' ? '␣' : shortened(text.replace(/\n/g, '⏎'), 24);
    const size = shown.length * letter + 2 * padding;
    if (x + size > width - 2 && x > 2) {
      x = 2;
      y += row + 2;
    }
    boxes.push({token, shown, x, y, size: Math.min(size, width - 4)});
    x += size + 2;
  });
  const g = svg.append('g').selectAll('g').data(boxes).enter().append('g').attr(
      'transform', (b) => `translate(${b.x} ${b.y})`);
  g.append('rect')
      .attr('class', 'attended')
      .attr('width', (b) => b.size)
      .attr('height', row - 2)
      .attr('rx', 3)
      .style('fill-opacity', (b) => 0.72 * weights.of(b.token) / weights.top);
  g.append('rect')
      .attr('class', (b) => b.token === query ? 'query' : 'frame faint')
      .attr('width', (b) => b.size)
      .attr('height', row - 2)
      .attr('rx', 3);
  g.append('text')
      .attr('class', 'token')
      .attr('x', (b) => b.size / 2)
      .attr('y', 15)
      .attr('text-anchor', 'middle')
      .text((b) => b.shown);
  svg.node().onpointermove = svg.node().onpointerdown = (event) => {
    const [px, py] = pointer(event, svg);
    const hit = boxes.find((b) => px >= b.x && px < b.x + b.size && py >= b.y && py < b.y + row);
    if (hit && hit.token !== query) pick(hit.token);
  };
  const near = (from, by) => {
    const here = boxes[from];
    const rows = boxes.filter((b) => by > 0 ? b.y > here.y : b.y < here.y);
    if (!rows.length) return from;
    const line = by > 0 ? d3.min(rows, (b) => b.y) : d3.max(rows, (b) => b.y);
    const same = rows.filter((b) => b.y === line);
    return same[d3.scan(same, (a, b) => Math.abs(a.x - here.x) - Math.abs(b.x - here.x))].token;
  };
  return {
    height: y + row + 2,
    name: (token) => token < boxes.length ? `Token ${token} “${boxes[token].shown}”` : `Padding ${token}`,
    pooled: (factor) => `${factor} tokens`,
    move(token, key) {
      const from = Math.min(token, boxes.length - 1);
      if (key === 'ArrowUp' || key === 'ArrowDown') return near(from, key === 'ArrowDown' ? 1 : -1);
      return {
        ArrowLeft: from - 1,
        ArrowRight: Math.min(boxes.length - 1, from + 1),
        Home: 0,
        End: boxes.length - 1
      }[key] ??
          null;
    },
  };
}
