// The page: header, controls, sections.
const has = (test) => model.runs.some(test);
const sections = [
  {id: 'summary', title: 'Summary', build: summarySection},
  {
    id: 'curves',
    title: 'Learning curves',
    short: 'Curves',
    build: curvesSection,
    when: has((run) => Object.keys(run.metrics).length)
  },
  {
    id: 'cost',
    title: 'Accuracy and cost',
    short: 'Cost',
    build: costSection,
    when: has((run) => run.finished && known(run.result.test.accuracy)) && model.runs.length > 1
  },
  {
    id: 'ranks',
    title: 'All data sets',
    short: 'Data sets',
    build: ranksSection,
    when: model.datasets.length > 1 || report.statistics
  },
  {
    id: 'maps',
    title: 'Attention maps',
    short: 'Maps',
    build: mapsSection,
    when: has((run) => run.inspect && run.inspect.samples.length)
  },
  {
    id: 'pooling',
    title: 'Pooled keys',
    short: 'Pooling',
    build: poolingSection,
    when: has((run) => run.inspect && run.inspect.pooling.length)
  },
  {
    id: 'heads',
    title: 'Head redundancy',
    short: 'Heads',
    build: headsSection,
    when:
        has((run) => run.finished &&
                (headDistance(run.result, 'test') !== null || headDistance(run.result, 'train') !== null))
  },
  {
    id: 'classes',
    title: 'Classes',
    build: confusionSection,
    when: has((run) => run.finished && run.result.test.confusion)
  },
  {id: 'derivations', title: 'Derivations', build: derivationsSection},
  {id: 'runs', title: 'Runs', build: runsSection},
].filter((section) => section.when === undefined || section.when);

const main = el('main');
document.getElementById('report').replaceChildren(
    header(), controls(sections), main,
    el('footer', {},
       `Written by saddle ${report.version}. Plots drawn with D3 ${
           d3.version}, © Mike Bostock, BSD 3-clause. This file is complete: it opens offline and sends nothing.`));
for (const section of sections) {
  const body = el('div', {class: 'body'});
  main.append(
      el('section', {id: section.id, 'aria-labelledby': section.id + '-title'},
         el('h2', {id: section.id + '-title'}, section.title), body));
  section.build(body);
}
redraw();

let resized = null, width = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === width) return;  // a phone's address bar comes and goes
  width = window.innerWidth;
  clearTimeout(resized);
  resized = setTimeout(redraw, 120);
});
