// Every run, with what is needed to repeat it.
function runsSection(body) {
  const columns = [
    {name: 'Attention', text: true, value: (run) => place(run.label), cell: (run) => attentionCell(run)},
    {name: 'Data', text: true, value: (run) => run.data, cell: (run) => run.data},
    {name: 'Seed', value: (run) => run.seed, cell: (run) => String(run.seed)},
    {
      name: 'Test',
      unit: '%',
      value: (run) => run.finished && known(run.result.test.accuracy) ? run.result.test.accuracy : null,
      cell: (run) => !run.finished        ? el('em', {}, 'not finished') :
          known(run.result.test.accuracy) ? percent(run.result.test.accuracy, 2) :
                                            missing
    },
    {
      name: 'Test',
      unit: 'RMSE',
      value: (run) => run.finished && known(run.result.test.rmse) ? run.result.test.rmse : null,
      cell: (run) => run.finished && known(run.result.test.rmse) ? fixed(3)(run.result.test.rmse) : missing
    },
    {
      name: 'Epoch',
      unit: 'best of',
      value: (run) => run.finished ? run.result.best_epoch : null,
      cell: (run) =>
          run.finished && known(run.result.best_epoch) ? `${run.result.best_epoch} of ${run.result.epochs}` : missing
    },
    {
      name: 'Train time',
      value: (run) => run.finished ? run.result.train_seconds : null,
      cell: (run) => run.finished ? seconds(run.result.train_seconds) : missing
    },
    {
      name: 'Stopped by',
      text: true,
      value: (run) => run.finished ? run.result.stopped : null,
      cell: (run) => run.finished && run.result.stopped || missing
    },
    {
      name: 'Protocol',
      text: true,
      value: (run) => run.protocol,
      cell: (run) => run.protocol === 'paper' ? el('span', {class: 'badge'}, '⚠ paper, leaky') : run.protocol
    },
    {
      name: 'Started',
      text: true,
      value: (run) => run.environment.started || null,
      cell: (run) => run.environment.started || missing
    },
    {name: 'Folder', text: true, value: (run) => run.name, cell: (run) => el('code', {}, run.name)},
    {
      name: 'Command',
      text: true,
      value: (run) => run.environment.command || null,
      cell: (run) => run.environment.command ? el('code', {}, run.environment.command) : missing
    },
  ];
  body.append(
      el('details', {}, el('summary', {}, plural(model.runs.length, 'run')),
         sortableTable(
             columns.filter((column) => model.runs.some((run) => column.value(run) !== null)), model.runs,
             {caption: 'Runs'})));
}

function derivationsSection(body) {
  body.append(el(
      'p', {},
      'A declared attention follows from a primal problem of support vector regression; the last step of a derivation is a ' +
          'certificate, computed on small random data.'));
  body.append(document.getElementById('derivations-text').content);
}
