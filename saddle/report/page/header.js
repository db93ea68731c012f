// What was compared, how, and where.
function distinct(values) {
  return [...new Set(values.filter((value) => value !== undefined && value !== null && value !== ''))];
}

function header() {
  const {runs, datasets, labels, groups} = model;
  const unfinished = runs.filter((run) => !run.finished).length;
  const paper = groups.filter(leaky);
  const seeds = distinct(runs.map((run) => run.seed)).sort((a, b) => a - b);
  const environment = (key) => distinct(runs.map((run) => run.environment[key]));
  const attentions = distinct(runs.map((run) => run.written)).length;
  const summary = [
    plural(attentions, 'attention'), plural(datasets.length, 'data set'),
    plural(runs.length, 'run') + (unfinished ? `, ${unfinished} not finished` : ''),
    (seeds.length > 1 ? 'seeds ' : 'seed ') + seeds.join(', ')
  ].join(' · ');
  const sizes = datasets.map((data) => {
    const run = runs.find((candidate) => candidate.data === data && candidate.finished);
    const samples = run && run.result.samples;
    if (!samples) return data;
    const parts = ['train', 'validation', 'test']
                      .filter((key) => samples[key])
                      .map((key) => `${samples[key].toLocaleString('en')} ${key}`);
    const kind = run.classNames.length ? plural(run.classNames.length, 'class', 'classes') : 'numbers';
    return `${data} (${kind}; ${parts.join(', ')})`;
  });
  const honest = runs.some((run) => run.protocol !== 'paper');
  const machine = [
    environment('cpu').join(', '), environment('isa').join(', '),
    environment('threads').length ? environment('threads').join(', ') + ' threads' : ''
  ].filter(Boolean).join(', ');
  const made = [
    'saddle ' + (environment('version').join(', ') || report.version), environment('revision').join(', '),
    environment('torch').length ? 'torch ' + environment('torch').join(', ') : ''
  ].filter(Boolean).join(', ');
  const facts = [
    ['Data', sizes.length > 4 ? sizes.join('; ') : sizes.map((text) => el('span', {}, text))],
    ['Model', distinct(runs.map((run) => run.model)).join(', ')],
    [
      'Protocol',
      honest ?
          'honest: the epoch is chosen on validation data held out of the training split; the test split is read once' :
          ''
    ],
    ['Machine', machine], ['Made by', made]
  ];
  return el(
      'header', {}, el('div', {class: 'title'}, el('h1', {}, report.title), themeButton()),
      el('p', {class: 'lead'}, summary),
      paper.length ?
          el('p', {class: 'warning', role: 'note'}, el('strong', {}, '⚠ Leaky protocol. '),
             `${
                 plural(
                     runs.filter((run) => run.protocol === 'paper').length,
                     'run')} of this page chose the epoch on the test split (protocol “paper”), ` +
                 'as much of the literature does. Such figures are too good; they are marked ⚠ and must not be ' +
                 'compared with honest ones.') :
          null,
      el('dl', {class: 'facts'},
         facts.filter((fact) => fact[1].length)
             .map(([name, text]) => el('div', {}, el('dt', {}, name), el('dd', {}, text)))));
}

// Data set and attentions: what all sections show.
function controls(sections) {
  const legend =
      el('div', {class: 'legend', role: 'group', 'aria-label': 'Attentions shown'}, model.labels.map((label) => {
        const group = model.groups.find((candidate) => candidate.label === label);
        const button =
            el('button', {
              type: 'button',
              'aria-pressed': 'true',
              title: 'show or hide',
              onclick: () => {
                const hide = !state.hidden.has(label);
                if (hide)
                  state.hidden.add(label);
                else
                  state.hidden.delete(label);
                button.setAttribute('aria-pressed', String(!hide));
                redraw();
              }
            },
               swatch(label), el('code', {}, label), leaky(group) ? el('span', {class: 'badge'}, '⚠ leaky') : null);
        views.push(() => {
          button.hidden = !model.groups.some((candidate) => candidate.label === label && candidate.data === state.data);
        });
        return button;
      }));
  const picker = model.datasets.length > 1 ? choice('Data', model.datasets, state.data, (data) => {
    state.data = data;
    redraw();
  }) : null;
  const links =
      el('nav', {'aria-label': 'Sections'},
         sections.map((section) => el('a', {href: '#' + section.id}, section.short || section.title)));
  return el('div', {class: 'bar'}, links, el('div', {class: 'pick'}, picker, model.labels.length > 1 ? legend : null));
}

function redraw() {
  for (const view of views) view();
}

// Light or dark as the system has it, or as chosen.
function themeButton() {
  const root = document.documentElement;
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  let chosen = 'system';
  const apply = () => {
    root.dataset.theme = chosen === 'system' ? (dark.matches ? 'dark' : 'light') : chosen;
  };
  const button =
      el('button', {
        type: 'button',
        class: 'theme',
        onclick: () => {
          chosen = {system: 'light', light: 'dark', dark: 'system'}[chosen];
          button.textContent = 'Theme: ' + chosen;
          apply();
        }
      },
         'Theme: system');
  dark.addEventListener('change', apply);
  apply();
  return button;
}
