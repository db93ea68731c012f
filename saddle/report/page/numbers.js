// Numbers for people; what is missing is a dash.
const missing = '–';
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const percent = (value, digits = 1) => known(value) ? (100 * value).toFixed(digits) : missing;
const fixed = (digits) => (value) => known(value) ? value.toFixed(digits) : missing;

// A quantity with its unit, of {from, size, unit}: the mean chooses unit and digits, the spread uses the same.
function quantity(units) {
  const format = (value, mean = value) => {
    const [, size, unit] = units.find(([from]) => Math.abs(mean) >= from) || units[units.length - 1];
    if (Number.isInteger(value) && size === 1) return [String(value), unit];
    const shown = Math.abs(mean) / size;
    const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.max(1, shown))));
    return [(value / size).toFixed(digits), unit];
  };
  const text = (value) => value === 0 ? '0' : known(value) ? format(value).filter(Boolean).join('\u202f') : missing;
  text.plusMinus = (s) => known(s.std) && s.std > 0 ?
      `${format(s.mean)[0]} ± ${format(s.std, s.mean)[0]}` + (format(s.mean)[1] && '\u202f' + format(s.mean)[1]) :
      text(s.mean);
  return text;
}
const count = quantity([[1e12, 1e12, 'T'], [1e9, 1e9, 'G'], [1e6, 1e6, 'M'], [1e4, 1e3, 'k'], [0, 1, '']]);
const bytes = quantity([[1e9, 1e9, 'GB'], [1e6, 1e6, 'MB'], [0, 1e3, 'kB']]);
const seconds = quantity([[7200, 3600, 'h'], [120, 60, 'min'], [1, 1, 's'], [1e-3, 1e-3, 'ms'], [0, 1e-6, 'µs']]);
const probability = (value) => !known(value) ? missing : value < 0.0001 ? '<\u202f0.0001' : value.toFixed(4);
const plural = (n, one, many) => n + '\u00a0' + (n === 1 ? one : many || one + 's');
const shortened = (text, most) => text.length > most ? text.slice(0, Math.max(1, most - 1)) + '…' : text;

// Mean and spread over seeds; the spread of a single run is not known.
function spread(values) {
  const list = values.filter(known);
  return {mean: list.length ? d3.mean(list) : null, std: list.length > 1 ? d3.deviation(list) : null, n: list.length};
}
const plusMinus = (s, format) => format.plusMinus ? format.plusMinus(s) :
    known(s.mean) ? format(s.mean) + (known(s.std) && s.std > 0 ? ' ± ' + format(s.std) : '') :
                    missing;
