// Over data sets: accuracies side by side, average ranks, and which differences are more than chance.
function ranksSection(body) {
  const {datasets, labels} = model;
  const groupOf = (label, data) => model.groups.find((g) => g.label === label && g.data === data && g.runs.length);
  if (datasets.length > 1) {
    const holder = el('div');
    body.append(holder);
    views.push(() => {
      const rows = labels.filter((label) => !state.hidden.has(label))
                       .map((label) => ({label, protocol: model.groups.find((g) => g.label === label).protocol}));
      const columns = [
        {name: 'Attention', text: true, value: (row) => place(row.label), cell: attentionCell},
        ...datasets.map((data) => ({
                          name: data,
                          unit: '%',
                          best: 'max',
                          value: (row) => {
                            const g = groupOf(row.label, data);
                            return g ? over(g, (r) => r.test.accuracy).mean : null;
                          },
                          cell: (row) => {
                            const g = groupOf(row.label, data);
                            return g ?
                                [
                                  plusMinus(over(g, (r) => r.test.accuracy), percent),
                                  el('span', {class: 'unit'}, ` (${g.runs.length})`)
                                ] :
                                missing;
                          }
                        }))
      ];
      holder.replaceChildren(sortableTable(
          columns, rows,
          {caption: 'Test accuracy on all data sets: mean ± standard deviation (seeds)', rival: (row) => !leaky(row)}));
    });
  }
  const statistics = report.statistics;
  if (!statistics || !statistics.ranks.length) return;
  const plot = figure(body, {
    title: 'Critical-difference diagram',
    name: 'critical-difference',
    draw: (svg, width) => width < 640 ? drawRankRows(svg, width) : drawRankAxis(svg, width)
  });
  const alpha = known(statistics.alpha) ? statistics.alpha : 0.1;
  views.push(() => {
    plot.redraw();
    plot.say(
        `Average ranks, 1 is best. A bar joins attentions whose differences are not significant at ${alpha} (${
            statistics.test === 'nemenyi' ? 'Nemenyi' : 'Wilcoxon with Holm’s correction'})` +
        (known(statistics.friedman_p) ? `; Friedman test over all: p = ${probability(statistics.friedman_p)}.` : '.'));
  });
  if (statistics.p_values.length)
    body.append(
        el('details', {}, el('summary', {}, 'p-values of all pairs'),
           sortableTable(
               [
                 {name: 'Attention', text: true, value: (row) => row.a, cell: (row) => el('code', {}, row.a)},
                 {name: 'against', text: true, value: (row) => row.b, cell: (row) => el('code', {}, row.b)},
                 {name: 'p', value: (row) => row.p, cell: (row) => probability(row.p)},
                 {name: 'p, corrected', value: (row) => row.holm, cell: (row) => probability(row.holm)},
                 {
                   name: 'differ',
                   text: true,
                   value: (row) => row.holm,
                   cell: (row) => known(row.holm) && row.holm <= alpha ? 'yes' : 'not shown'
                 },
               ],
               statistics.p_values, {caption: `Tests of all pairs over data sets, level ${alpha}`})));
}

function rankedNames() {
  const ranks = report.statistics.ranks.slice().sort((a, b) => a.rank - b.rank);
  const cliques =
      report.statistics.cliques
          .map((clique) => clique.map((name) => ranks.findIndex((r) => r.name === name)).sort((a, b) => a - b))
          .filter((clique) => clique.length > 1);
  return {ranks, cliques};
}
const rankColour = (name) => model.labels.includes(name) ? colour(name) : 'var(--ink)';

// The usual form: an axis of ranks above, names left and right, bars between.
function drawRankAxis(svg, width) {
  const {ranks, cliques} = rankedNames();
  const half = Math.ceil(ranks.length / 2), step = 24;
  const top = known(report.statistics.critical_difference) ? 46 : 26;
  const chars = Math.min(60, d3.max(ranks, (r) => r.name.length));
  const side = Math.min(width * 0.38, 64 + 7 * chars);
  const low = Math.floor(ranks[0].rank), high = Math.max(low + 1, Math.ceil(ranks[ranks.length - 1].rank));
  const x = d3.scaleLinear().domain([low, high]).range([side, width - side]);
  const axis = svg.append('g').attr('class', 'axis bare').attr('transform', `translate(0 ${top})`);
  axis.call(d3.axisTop(x).ticks(high - low).tickFormat(d3.format('d')).tickSize(6));
  const distance = report.statistics.critical_difference;
  if (known(distance) && low + distance <= high) {
    svg.append('path')
        .attr('class', 'border')
        .attr('d', `M${x(low)},6H${x(low + distance)}M${x(low)},2V10M${x(low + distance)},2V10`);
    svg.append('text')
        .attr('class', 'value')
        .attr('x', x(low + distance) + 6)
        .attr('y', 10)
        .text('critical difference ' + distance.toFixed(2));
  }
  const bars = top + 14, first = bars + 12 * cliques.length + 16;
  cliques.forEach(
      (clique, i) => svg.append('line')
                         .attr('class', 'clique')
                         .attr('x1', x(ranks[clique[0]].rank) - 5)
                         .attr('x2', x(ranks[clique[clique.length - 1]].rank) + 5)
                         .attr('y1', bars + 12 * i)
                         .attr('y2', bars + 12 * i));
  ranks.forEach((entry, i) => {
    const left = i < half;
    const y = first + step * (left ? i : ranks.length - 1 - i);
    const end = left ? side - 8 : width - side + 8;
    svg.append('path')
        .attr('class', 'line')
        .attr('d', `M${x(entry.rank)},${top}V${y}H${end}`)
        .style('stroke', rankColour(entry.name))
        .style('stroke-width', 1.3);
    const text = svg.append('text')
                     .attr('class', 'name')
                     .attr('x', left ? end - 4 : end + 4)
                     .attr('y', y + 4)
                     .attr('text-anchor', left ? 'end' : 'start');
    text.append('tspan').text(shortened(entry.name, Math.floor((side - 46) / 6.8)));
    text.append('tspan').attr('class', 'value').text('  ' + entry.rank.toFixed(2));
    text.append('title').text(entry.name);
  });
  return first + step * half;
}

// On narrow screens: a row for each, bars beside.
function drawRankRows(svg, width) {
  const {ranks, cliques} = rankedNames();
  const step = 38, right = 16 + 12 * cliques.length;
  const x = d3.scaleLinear().domain([1, Math.max(2, ranks[ranks.length - 1].rank)]).range([8, width - right - 50]);
  ranks.forEach((entry, i) => {
    const y = step * i + 28;
    svg.append('text')
        .attr('class', 'name')
        .attr('x', 4)
        .attr('y', y - 12)
        .text(shortened(entry.name, Math.floor((width - right) / 7)))
        .append('title')
        .text(entry.name);
    svg.append('line')
        .attr('class', 'rule')
        .attr('x1', x.range()[0])
        .attr('x2', x.range()[1])
        .attr('y1', y)
        .attr('y2', y);
    svg.append('circle').attr('cx', x(entry.rank)).attr('cy', y).attr('r', 5).style('fill', rankColour(entry.name));
    svg.append('text')
        .attr('class', 'value')
        .attr('x', width - right - 4)
        .attr('y', y + 4)
        .attr('text-anchor', 'end')
        .text(entry.rank.toFixed(2));
  });
  cliques.forEach(
      (clique, i) => svg.append('line')
                         .attr('class', 'clique')
                         .attr('x1', width - right + 8 + 12 * i)
                         .attr('x2', width - right + 8 + 12 * i)
                         .attr('y1', step * clique[0] + 18)
                         .attr('y2', step * clique[clique.length - 1] + 36));
  return step * ranks.length + 8;
}
