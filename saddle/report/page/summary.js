// The summary table.
const costs = [
  {
    key: 'multiply_adds',
    name: 'multiply-adds',
    value: (r) => r.multiply_adds,
    format: count,
    unit: 'forward, one sample'
  },
  {key: 'train', name: 'train time', value: (r) => r.train_seconds, format: seconds, unit: ''},
  {
    key: 'inference',
    name: 'inference time',
    value: (r) => r.inference_samples_per_second ? 1 / r.inference_samples_per_second : null,
    format: seconds,
    unit: 'per sample'
  },
  {key: 'memory', name: 'peak memory', value: (r) => r.peak_memory_bytes, format: bytes, unit: ''},
  {key: 'parameters', name: 'parameters', value: (r) => r.parameters, format: count, unit: ''},
];

function summaryTable() {
  const score = (name, unit, value, best = 'max') =>
      ({name, unit, best, value: (g) => over(g, value).mean, cell: (g) => plusMinus(over(g, value), percent)});
  const cost = (name, unit, value, format, best) =>
      ({name, unit, best, value: (g) => over(g, value).mean, cell: (g) => plusMinus(over(g, value), format)});
  const columns = [
    {name: 'Attention', text: true, value: (g) => place(g.label), cell: attentionCell},
    {
      name: 'Seeds',
      value: (g) => g.runs.length,
      cell: (g) => g.runs.length + (g.members.length > g.runs.length ? ` of ${g.members.length}` : '')
    },
    score('Test', '%', (r) => r.test.accuracy),
    score('Last epoch', '%', (r) => r.last && r.last.accuracy),
    score('Validation', '%', (r) => r.validation && r.validation.accuracy),
    score('Masked words', '% test', (r) => r.pretraining && r.pretraining.masked_words && r.pretraining.masked_words.accuracy),
    score('Text matches', '% test', (r) => r.pretraining && r.pretraining.matching && r.pretraining.matching.accuracy),
    cost('Test', 'RMSE', (r) => r.test.rmse, fixed(3), 'min'),
    cost('Validation', 'RMSE', (r) => r.validation && r.validation.rmse, fixed(3), 'min'),
    cost('Parameters', '', (r) => r.parameters, count, 'min'),
    cost('Multiply-adds', '', (r) => r.multiply_adds, count, 'min'),
    cost('Train', 'samples/s', (r) => r.train_samples_per_second, count, 'max'),
    cost('Inference', 'samples/s', (r) => r.inference_samples_per_second, count, 'max'),
    cost('Memory', 'peak', (r) => r.peak_memory_bytes, bytes, 'min'),
    cost('Head distance', 'test', (r) => headDistance(r), fixed(2)),
  ];
  const rows = shownGroups();
  return sortableTable(
      columns.filter((column, c) => c < 2 || rows.some((row) => known(column.value(row)))), rows,
      // A leaky figure cannot be the best of honest ones.
      {caption: `Mean ± standard deviation over seeds on ${state.data}`, rival: (group) => !leaky(group)});
}

function summarySection(body) {
  const table = el('div');
  body.append(table);
  views.push(() => table.replaceChildren(summaryTable()));
}

// "3 seeds each", or per attention when they differ.
function seedsText(groups) {
  const counts = distinct(groups.map((group) => group.runs.length));
  return counts.length === 1 ? plural(counts[0], 'seed') + (groups.length > 1 ? ' each' : '') :
                               d3.min(counts) + ' to ' + d3.max(counts) + ' seeds';
}
