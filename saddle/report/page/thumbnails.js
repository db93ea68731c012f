// Small maps of all layers and heads of a sample; a click or Enter calls choose(layer, head).
function drawThumbnails(svg, width, run, sample, at, choose) {
  const layers = run.inspect.samples[sample].layers;
  const most = d3.max(layers, (layer) => layer.heads.length);
  const few = most < 7;
  const left = few ? 56 : 22, gap = few ? 6 : 3;
  const size = Math.max(14, Math.min(72, (width - left) / most - gap));
  const pooled = run.inspect.pooling[0];
  for (let h = 0; h < most; ++h)
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', left + h * (size + gap) + size / 2)
        .attr('y', 12)
        .attr('text-anchor', 'middle')
        .text(
            (size > 50 ? 'head ' : '') + (h + 1) +
            (pooled && pooled.factors[h] > 1 && size > 50 ? ` · ÷${pooled.factors[h]}` : ''));
  layers.forEach((layer, l) => {
    const y = 20 + l * (size + gap);
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', left - 8)
        .attr('y', y + size / 2 + 4)
        .attr('text-anchor', 'end')
        .text((few ? 'layer ' : '') + (l + 1));
    layer.heads.forEach((_, h) => {
      const {map} = readMap(run.number, sample, l, h);
      const chosen = l === at.layer && h === at.head;
      const g = svg.append('g')
                    .attr('class', 'thumb')
                    .attr('tabindex', 0)
                    .attr('role', 'button')
                    .attr('aria-label', `layer ${l + 1}, head ${h + 1}`)
                    .attr('aria-pressed', String(chosen))
                    .attr('transform', `translate(${left + h * (size + gap)} ${y})`);
      g.append('image')
          .attr('width', size)
          .attr('height', size)
          .attr('preserveAspectRatio', 'none')
          .attr('href', mapPicture(map))
          .style('image-rendering', 'pixelated');
      g.append('rect').attr('class', chosen ? 'chosen' : 'frame').attr('width', size).attr('height', size);
      const activate = () => {
        choose(l, h);
        svg.select('.thumb[aria-pressed=true]').node().focus({preventScroll: true});  // the old one is gone
      };
      g.node().addEventListener('click', activate);
      g.node().addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        activate();
      });
    });
  });
  return 20 + layers.length * (size + gap);
}
