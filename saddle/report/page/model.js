// The runs, grouped: seeds of one attention on one data set belong together.
const model = (() => {
  const runs = report.runs;
  runs.forEach((run, number) => Object.assign(run, {number, classNames: report.classes[run.classes]}));
  const datasets = [...new Set(runs.map((run) => run.data))];
  const found = [...new Set(runs.map((run) => run.label))];
  const wanted = (label) => {
    const at = report.order.indexOf(label);
    return at < 0 ? report.order.length : at;
  };
  const labels = found.map((label, i) => [label, i])
                     .sort((a, b) => wanted(a[0]) - wanted(b[0]) || a[0].length - b[0].length || a[1] - b[1])
                     .map((entry) => entry[0]);
  const groups = [];
  for (const data of datasets)
    for (const label of labels) {
      const members = runs.filter((run) => run.data === data && run.label === label);
      if (!members.length) continue;
      const finished = members.filter((run) => run.finished);
      groups.push({
        data,
        label,
        members,
        runs: finished,
        protocol: members.some((run) => run.protocol === 'paper') ? 'paper' : 'honest'
      });
    }
  return {runs, datasets, labels, groups};
})();
state.data = (model.runs.find((run) => run.finished) || model.runs[0]).data;

// Groups of the chosen data set that the legend shows.
const shownGroups = () => model.groups.filter((group) => group.data === state.data && !state.hidden.has(group.label));
const scoredGroups = () => shownGroups().filter((group) => group.runs.length);
const over = (group, value) => spread(group.runs.map((run) => value(run.result)));
const headDistance = (result, split = 'test') => {
  const layers = result.head_distance && result.head_distance[split];
  return layers && layers.length ? d3.mean(layers, (layer) => layer.mean) : null;
};
