// Scores of every class, all attentions beside each other.
function classScores(parent) {
  const chosen = {score: 'f1'};
  const names = {f1: 'F1', recall: 'recall', precision: 'precision'};
  const most = 30;
  const plot = figure(parent, {
    title: 'Scores by class',
    name: 'class-scores',
    draw,
    legend: scoredGroups,
    controls: choice(
        'Score', Object.keys(names).map((key) => ({value: key, text: names[key]})), chosen.score,
        (score) => {
          chosen.score = score;
          plot.redraw();
        })
  });
  function draw(svg, width) {
    const groups = scoredGroups().filter((group) => group.runs.some((run) => run.result.test.per_class));
    if (!groups.length) return 10;
    const classes = groups[0].runs[0].classNames;
    const support = (groups[0].runs.find((run) => run.result.test.per_class)).result.test.per_class;
    let rows = classes.map(
        (name, c) => ({
          name,
          c,
          scores:
              groups
                  .map((group) => ({
                         group,
                         ...spread(group.runs.map(
                             (run) => run.result.test.per_class ? run.result.test.per_class[c][chosen.score] : null))
                       }))
                  .filter((s) => known(s.mean))
        }));
    const all = rows.length;
    if (all > most)
      rows = rows.sort((a, b) => (d3.mean(a.scores, (s) => s.mean) || 0) - (d3.mean(b.scores, (s) => s.mean) || 0))
                 .slice(0, most);
    const chars = Math.min(d3.max(rows, (row) => row.name.length), width < 480 ? 11 : 20);
    const left = 14 + 7 * chars, right = 52, step = Math.max(22, Math.min(34, 8 * groups.length)), top = 22;
    const height = top + step * rows.length + 26;
    const low = d3.min(rows.flatMap((row) => row.scores), (s) => s.mean - (s.std || 0)) || 0;
    const x = d3.scaleLinear().domain([Math.max(0, Math.floor(low * 20) / 20), 1]).range([left, width - right]);
    const axis = svg.append('g').attr('class', 'axis').attr('transform', `translate(0 ${height - 24})`);
    axis.call(d3.axisBottom(x)
                  .ticks(Math.max(2, (width - left) / 90))
                  .tickFormat((v) => percent(v, 0))
                  .tickSize(-(height - 24 - top))
                  .tickPadding(6));
    axis.select('.domain').remove();
    svg.append('text').attr('class', 'axis-name').attr('x', left).attr('y', 12).text(names[chosen.score] + ', %');
    svg.append('text')
        .attr('class', 'axis-name')
        .attr('x', width - 2)
        .attr('y', 12)
        .attr('text-anchor', 'end')
        .text('support');
    rows.forEach((row, i) => {
      const y = top + step * (i + 0.5);
      svg.append('text')
          .attr('class', 'name')
          .attr('x', left - 8)
          .attr('y', y + 4)
          .attr('text-anchor', 'end')
          .text(shortened(row.name, chars))
          .append('title')
          .text(row.name);
      svg.append('text')
          .attr('class', 'value')
          .attr('x', width - 2)
          .attr('y', y + 4)
          .attr('text-anchor', 'end')
          .text(support[row.c].support);
      row.scores.forEach((s) => {
        const at = y + (groups.indexOf(s.group) - (groups.length - 1) / 2) * Math.min(6, (step - 8) / groups.length);
        if (known(s.std))
          svg.append('line')
              .attr('class', 'whisker thin')
              .attr('x1', x(Math.max(x.domain()[0], s.mean - s.std)))
              .attr('x2', x(Math.min(1, s.mean + s.std)))
              .attr('y1', at)
              .attr('y2', at)
              .style('stroke', colour(s.group.label));
        svg.append('path')
            .attr('class', 'point')
            .attr('transform', `translate(${x(s.mean)} ${at})`)
            .attr('d', mark(s.group.label, 34))
            .style('fill', colour(s.group.label))
            .append('title')
            .text(`${row.name}, ${s.group.label}: ${plusMinus(s, percent)} %`);
      });
    });
    plot.say(
        (all > most ? `The ${most} lowest of ${all} classes. ` : '') +
        `Mean over ${seedsText(groups)}; lines: one standard deviation.`);
    return height;
  }
  return plot;
}

// The same as numbers: F1, recall and precision of every class and attention.
function classTable() {
  const rows = scoredGroups()
                   .filter((group) => group.runs.some((run) => run.result.test.per_class))
                   .flatMap((group) => group.runs[0].classNames.map((name, c) => {
                     const lists = group.runs.map((run) => run.result.test.per_class).filter(Boolean);
                     const score = (key) => spread(lists.map((list) => list[c][key]));
                     return {
                       group,
                       name,
                       f1: score('f1'),
                       recall: score('recall'),
                       precision: score('precision'),
                       support: lists[0][c].support
                     };
                   }));
  const score = (name, key) =>
      ({name, unit: '%', value: (row) => row[key].mean, cell: (row) => plusMinus(row[key], percent)});
  return sortableTable(
      [
        {name: 'Class', text: true, value: (row) => row.name, cell: (row) => row.name}, {
          name: 'Attention',
          text: true,
          value: (row) => place(row.group.label),
          cell: (row) => attentionCell(row.group)
        },
        score('F1', 'f1'), score('Recall', 'recall'), score('Precision', 'precision'),
        {name: 'Support', value: (row) => row.support, cell: (row) => String(row.support)}
      ],
      rows, {caption: `Mean ± standard deviation over seeds on the test split of ${state.data}`});
}
