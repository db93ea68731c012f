// A table whose columns sort. columns: {name, unit, value(row), cell(row), text: left-aligned, best: 'max' | 'min'}.
function sortableTable(columns, rows, {caption, sort = 0, descending = false, rival = () => true} = {}) {
  const body = el('tbody');
  const headings = columns.map(
      (column, c) =>
          el('th', {scope: 'col', class: column.text ? 'text' : null},
             el('button', {type: 'button', onclick: () => order(c)}, column.name,
                column.unit ? el('span', {class: 'unit'}, ' ' + column.unit) : null,
                el('span', {class: 'arrow', 'aria-hidden': 'true'}))));
  const best = columns.map((column) => {
    const values = rows.filter(rival).map((row) => column.value(row)).filter(known);
    return !column.best || new Set(values).size < 2 ? null : column.best === 'max' ? d3.max(values) : d3.min(values);
  });
  let current = -1, down = false;
  function order(c, direction) {
    down = direction !== undefined ? direction : c === current ? !down : !columns[c].text;
    current = c;
    const key = columns[c].value;
    const sorted = rows.slice().sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === y) return 0;
      if (x === null || x === undefined) return 1;
      if (y === null || y === undefined) return -1;
      return (down ? d3.descending : d3.ascending)(x, y);
    });
    headings.forEach((heading, h) => {
      if (h === c)
        heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else
        heading.removeAttribute('aria-sort');
    });
    body.replaceChildren(
        ...sorted.map((row) => el('tr', {}, columns.map((column, i) => {
                        const isBest = best[i] !== null && rival(row) && column.value(row) === best[i];
                        return el(
                            i === 0 ? 'th' : 'td', {
                              class: [column.text ? 'text' : '', isBest ? 'best' : ''].join(' ').trim() || null,
                              scope: i === 0 ? 'row' : null
                            },
                            column.cell(row));
                      }))));
  }
  order(sort, descending);
  return el(
      'div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption},
      el('table', {}, el('caption', {}, caption), el('thead', {}, el('tr', {}, headings)), body));
}
