// What the model says about a sample: the largest probabilities, and that of the truth.
function drawProbabilities(svg, width, sample, className) {
  const order = d3.range(sample.probabilities.length)
                    .sort((a, b) => sample.probabilities[b] - sample.probabilities[a])
                    .slice(0, 10);
  if (sample.label !== undefined && !order.includes(sample.label)) order.push(sample.label);
  const row = 22, names = Math.min(width * 0.45, 130);
  const x = d3.scaleLinear().domain([0, 1]).range([0, width - names - 64]);
  order.forEach((c, i) => {
    const y = row * i + 4;
    const right = c === sample.label;
    const length = Math.max(1, x(sample.probabilities[c]));
    svg.append('text')
        .attr('class', 'name' + (right ? ' strong' : ''))
        .attr('x', names - 8)
        .attr('y', y + 14)
        .attr('text-anchor', 'end')
        .text((right ? '✓ ' : '') + shortened(className(c), Math.floor(names / 7.4)))
        .append('title')
        .text(className(c));
    const quality = right ? 'good' : c === sample.predicted ? 'bad' : 'quiet';
    svg.append('rect')
        .attr('class', quality)
        .attr('x', names)
        .attr('y', y + 3)
        .attr('width', length)
        .attr('height', row - 8)
        .attr('rx', 2);
    svg.append('text')
        .attr('class', 'value')
        .attr('x', names + length + 6)
        .attr('y', y + 14)
        .text(percent(sample.probabilities[c]) + ' %');
  });
  return row * order.length + 10;
}

// "Wrong: coat, but it is shirt."
function verdict(sample, className) {
  const predicted = className(sample.predicted);
  if (sample.label === undefined) return [el('b', {}, 'Predicted: '), predicted + '.'];
  if (sample.label === sample.predicted) return [el('b', {class: 'good'}, 'Right: '), predicted + '.'];
  return [el('b', {class: 'bad'}, 'Wrong: '), `${predicted}, but it is ${className(sample.label)}.`];
}
