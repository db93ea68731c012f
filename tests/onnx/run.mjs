// Runs the exported cases of a folder (see write_cases.cpp) in ONNX Runtime and compares: node run.mjs <folder>
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import path from 'node:path';

const require = createRequire(path.join(process.env.SADDLE_PEERS, 'package.json'));
const ort = require('onnxruntime-node');
const folder = process.argv[2];
const tolerance = 1e-5; // of the largest output

const arrays = { float32: Float32Array, int64: BigInt64Array, bool: Uint8Array };
const read = ({ type, dims, file }) => {
  const bytes = new Uint8Array(readFileSync(path.join(folder, file)));
  return new ort.Tensor(type, new arrays[type](bytes.buffer), dims);
};

// What differs, or an empty text.
function difference(found, expected) {
  if (found.dims.join() !== expected.dims.join()) return `sizes are ${found.dims}, not ${expected.dims}`;
  let largest = 0;
  let error = 0;
  expected.data.forEach((y, i) => {
    if (Number.isFinite(y)) largest = Math.max(largest, Math.abs(y));
    if (y !== found.data[i]) error = Math.max(error, Number.isNaN(found.data[i] - y) ? Infinity : Math.abs(found.data[i] - y));
  });
  return error > tolerance * largest ? `error ${error} of ${largest}` : '';
}

async function problems(one) {
  const session = await ort.InferenceSession.create(
    path.join(folder, one.model), { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 });
  const all = [];
  for (const { inputs, outputs } of one.runs) {
    const feeds = Object.fromEntries(
      inputs.filter(({ name }) => session.inputNames.includes(name)).map((input) => [input.name, read(input)]));
    const results = await session.run(feeds);
    for (const output of outputs) {
      const found = difference(results[output.name], read(output));
      if (found) all.push(`${output.name} for ${JSON.stringify(inputs[0].dims)}: ${found}`);
    }
  }
  return all;
}

const cases = JSON.parse(readFileSync(path.join(folder, 'cases.json')));
let failed = 0;
for (const one of cases) {
  const all = await problems(one).catch((error) => [error.message]);
  if (all.length > 0) {
    failed += 1;
    console.log(`${one.name} (${one.model})\n  ${all.join('\n  ')}`);
  }
}
console.log(`onnxruntime-node ${require('onnxruntime-node/package.json').version}: ${cases.length - failed} of ${cases.length} cases agree`);
process.exit(failed > 0 || cases.length === 0 ? 1 : 0);
