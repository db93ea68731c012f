// Attention maps as numbers and as pictures.

// The bytes behind base64.
function decode(text) {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; ++i) out[i] = raw.charCodeAt(i);
  return out;
}

// A picture of rows x columns pixels for an <image>: shade(i) gives [r, g, b].
function picture(rows, columns, shade) {
  const canvas = el('canvas', {width: columns, height: rows});
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; ++i) {
    const [r, g, b] = shade(i);
    pixels.data.set([r, g, b, 255], 4 * i);
  }
  context.putImageData(pixels, 0, 0);
  return canvas.toDataURL();
}

// Weights of one head: cells of the map, and from tokens to cells.
function readMap(run, sample, layer, head) {
  const map = report.runs[run].inspect.samples[sample].layers[layer].heads[head];
  if (!map.values) {
    map.values = decode(map.data);
    map.top = fullShade(map.max, d3.mean(map.values) / 255 * map.max);
  }
  const [rowScale, columnScale] = map.scale || [1, 1];
  const inspect = report.runs[run].inspect;
  const pooled = inspect.pooling.find((entry) => entry.layer === layer);
  const factor = pooled ? pooled.factors[head] : 1;
  const group = pooled && pooled.groups[factor];
  const tokens =
      inspect.grid ? inspect.grid.prefix + inspect.grid.rows * inspect.grid.columns : Math.round(map.rows * rowScale);
  const key = (token) => group ? group[token] : Math.floor(token / factor);
  return {
    map,
    tokens,
    factor,
    row: (query) => Math.min(map.rows - 1, Math.floor(query / rowScale)),
    // The cell of the key that stands for a token; -1 if pooling leaves the token out.
    column: (token) => {
      const k = key(token);
      return k === undefined || k < 0 ? -1 : Math.min(map.columns - 1, Math.floor(k / columnScale));
    },
    at: (row, column) => map.values[row * map.columns + column] / 255 * map.max,
  };
}

// The weight that gets the full shade. It is the largest, unless all are nearly equal: those should look pale and even.
const fullShade = (max, mean) => Math.max(max, 3 * mean) || 1;

// What a query gives to every token, or what all queries give on average, with the largest and that of the full shade.
function weightsOf(head, query) {
  const {map} = head;
  const cells = new Float64Array(map.columns);
  if (query === null) {
    for (let r = 0; r < map.rows; ++r)
      for (let c = 0; c < map.columns; ++c) cells[c] += head.at(r, c) / map.rows;
  } else {
    for (let c = 0; c < map.columns; ++c) cells[c] = head.at(head.row(query), c);
  }
  const max = d3.max(cells) || 1;
  return {
    of: (token) => head.column(token) < 0 ? 0 : cells[head.column(token)],
    max,
    top: fullShade(max, d3.mean(cells))
  };
}

// The map as a picture, from 0 to map.top.
const mapPicture = (map) => picture(map.rows, map.columns, (i) => heat(Math.round(map.values[i] * map.max / map.top)));

const heat = (() => {
  const table = d3.range(256).map((i) => {
    const c = d3.rgb(d3.interpolateCividis(i / 255));
    return [c.r, c.g, c.b];
  });
  return (byte) => table[byte];
})();
