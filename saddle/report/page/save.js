// A plot as a file of its own: every style that it gets from the page is written into it, in the light colours.
const savedStyles = [
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'stroke-linecap',
  'stroke-linejoin', 'opacity', 'font-size', 'font-weight', 'font-style', 'text-anchor', 'dominant-baseline',
  'image-rendering', 'paint-order'
];
const defaults = {
  'fill-opacity': '1',
  'stroke': 'none',
  'stroke-opacity': '1',
  'stroke-dasharray': 'none',
  'opacity': '1',
  'stroke-linecap': 'butt',
  'stroke-linejoin': 'miter',
  'font-style': 'normal',
  'text-anchor': 'start',
  'dominant-baseline': 'auto',
  'image-rendering': 'auto',
  'paint-order': 'normal'
};

function svgText(svg) {
  const root = document.documentElement;
  const theme = root.dataset.theme;
  root.dataset.theme = 'light';
  const copy = svg.cloneNode(true);
  const sources = [svg, ...svg.querySelectorAll('*')];
  const copies = [copy, ...copy.querySelectorAll('*')];
  sources.forEach((source, i) => {
    const style = getComputedStyle(source);
    const isText = ['text', 'tspan', 'svg'].includes(source.localName);
    const text = savedStyles
                     .filter((name) => {
                       if (name.startsWith('font') || name === 'text-anchor' || name === 'dominant-baseline')
                         if (!isText) return false;
                       if (name.startsWith('stroke-') && style.stroke === 'none') return false;
                       if (name === 'image-rendering' && source.localName !== 'image') return false;
                       return style.getPropertyValue(name) !== defaults[name];
                     })
                     .map((name) => `${name}:${style.getPropertyValue(name)}`);
    if (source === svg) text.push('font-family:Helvetica,Arial,sans-serif');
    if (source.localName === 'g')
      copies[i].removeAttribute('style');
    else
      copies[i].setAttribute('style', text.join(';'));
    for (const name of ['class', 'tabindex', 'role', 'aria-label', 'aria-live', 'aria-pressed', 'font-family'])
      copies[i].removeAttribute(name);
    for (const name of ['fill', 'stroke'])
      if (copies[i].getAttribute(name) === 'currentColor') copies[i].removeAttribute(name);
  });
  sources.forEach((source, i) => {
    if (source.classList.contains('transient')) copies[i].remove();
  });
  root.dataset.theme = theme;
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy) + '\n';
}

// The page has one legend for all plots; a file needs its own, below the plot.
function withLegend(svg, groups, take) {
  const [width, height] = [Number(svg.attr('width')), Number(svg.attr('height'))];
  const g = svg.append('g');
  groups.forEach((group, i) => {
    const y = height + 14 + 18 * i;
    g.append('path')
        .attr('class', 'point')
        .attr('transform', `translate(12 ${y})`)
        .attr('d', mark(group.label))
        .style('fill', colour(group.label));
    g.append('text').attr('class', 'name').attr('x', 26).attr('y', y + 4).text(plotName(group, 200));
  });
  const resize = (to) => svg.attr('height', to).attr('viewBox', `0 0 ${width} ${to}`);
  resize(height + (groups.length ? 8 + 18 * groups.length : 0));
  const text = take(svg.node());
  resize(height);
  g.remove();
  return text;
}

function saveSvg(svg, name, groups) {
  const address = URL.createObjectURL(new Blob([withLegend(svg, groups, svgText)], {type: 'image/svg+xml'}));
  const link =
      el('a', {href: address, download: name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') + '.svg'});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
