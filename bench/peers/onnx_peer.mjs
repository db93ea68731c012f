// Attention in ONNX Runtime, answering requests of `saddle bench`: one line of JSON in, one out.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import path from 'node:path';

const require = createRequire(path.join(process.env.SADDLE_PEERS, 'package.json'));

// The few messages of ONNX that a graph of one or a few nodes needs, field by field as in onnx.proto.
const varint = (n) => {
  const bytes = [];
  for (; n > 127; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
  bytes.push(n);
  return Buffer.from(bytes);
};
const number = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const block = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);
const text = (field, string) => block(field, Buffer.from(string));
const float = (field, x) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(x);
  return Buffer.concat([varint(field * 8 + 5), bytes]);
};
const attribute = (name, value) => {
  if (Array.isArray(value)) return Buffer.concat([text(1, name), ...value.map((n) => number(8, n)), number(20, 7)]);
  return Buffer.concat([text(1, name), number(3, value), number(20, 2)]);
};
const node = (op, inputs, outputs, attributes = {}, domain = '') => Buffer.concat([
  ...inputs.map((name) => text(1, name)), ...outputs.map((name) => text(2, name)), text(4, op),
  ...Object.entries(attributes).map(([name, value]) => block(5, attribute(name, value))), text(7, domain)]);
const tensorInfo = (name, dims) => {
  const shape = Buffer.concat(dims.map((n) => block(1, number(1, n))));
  return Buffer.concat([text(1, name), block(2, block(1, Buffer.concat([number(1, 1), block(2, shape)])))]);
};
const scalar = (name, value) => Buffer.concat([number(2, 1), float(4, value), text(8, name)]);
const model = (nodes, constants, inputs, outputs) => {
  const graph = Buffer.concat([
    ...nodes.map((bytes) => block(1, bytes)), text(2, 'attention'), ...constants.map((bytes) => block(5, bytes)),
    ...inputs.map((bytes) => block(11, bytes)), ...outputs.map((bytes) => block(12, bytes))]);
  const opset = (domain, version) => block(8, Buffer.concat([text(1, domain), number(2, version)]));
  return Buffer.concat([number(1, 8), block(7, graph), opset('', 17), opset('com.microsoft', 1)]);
};

// The fused operator takes and gives [B,N,H*D].
const fused = ({ B, H, N, D }) => model(
  [node('MultiHeadAttention', ['q', 'k', 'v'], ['y'], { num_heads: H }, 'com.microsoft')], [],
  ['q', 'k', 'v'].map((name) => tensorInfo(name, [B, N, H * D])), [tensorInfo('y', [B, N, H * D])]);
const unfused = ({ B, H, N, D }) => model(
  [node('Transpose', ['k'], ['kt'], { perm: [0, 1, 3, 2] }), node('MatMul', ['q', 'kt'], ['s']),
    node('Mul', ['s', 'scale'], ['t']), node('Softmax', ['t'], ['p']), node('MatMul', ['p', 'v'], ['y'])],
  [scalar('scale', 1 / Math.sqrt(D))],
  ['q', 'k', 'v'].map((name) => tensorInfo(name, [B, H, N, D])), [tensorInfo('y', [B, H, N, D])]);

// [B,H,N,D] <-> [B,N,H,D].
const swapped = (x, B, first, second, D) => {
  const out = new Float32Array(x.length);
  for (let b = 0; b < B; ++b)
    for (let i = 0; i < first; ++i)
      for (let j = 0; j < second; ++j) {
        const from = ((b * first + i) * second + j) * D;
        out.set(x.subarray(from, from + D), ((b * second + j) * first + i) * D);
      }
  return out;
};

let ort;
let run;

async function setUp(task) {
  run = undefined;
  const [B, H, N, M, D, E] = task.shape;
  const plain = task.kind === 'softmax' && !task.causal && !task.window && !task.beta;
  if (!plain || N !== M || D !== E) throw new Error('ONNX Runtime is given plain self-attention only');
  if (task.dtype !== 'f32') throw new Error('its fused kernel is f32 only');
  if (task.pass !== 'forward') throw new Error('it has no backward pass');
  const whole = task.peer === 'onnxruntime';
  if (!whole && B * H * N * N > 2 ** 30) throw new Error('its N x N temporaries would take more than 4 GB');
  const bytes = (whole ? fused : unfused)({ B, H, N, D });
  const session = await ort.InferenceSession.create(
    bytes, { intraOpNumThreads: task.threads, interOpNumThreads: 1, executionMode: 'sequential',
      extra: { session: { 'intra_op': { 'allow_spinning': '0' } } } });
  const feeds = {};
  for (const name of ['q', 'k', 'v']) {
    const file = readFileSync(path.join(task.folder, name));
    const x = new Float32Array(file.buffer, file.byteOffset, file.length / 4);
    feeds[name] = whole ? new ort.Tensor('float32', swapped(x, B, H, N, D), [B, N, H * D])
      : new ort.Tensor('float32', Float32Array.from(x), [B, H, N, D]);
  }
  const result = (await session.run(feeds)).y.data;
  const y = whole ? swapped(result, B, N, H, D) : result;
  writeFileSync(path.join(task.folder, 'y'), Buffer.from(y.buffer, y.byteOffset, y.byteLength));
  run = () => session.run(feeds);
}

async function bestTime(seconds) {
  let best = Infinity;
  const end = performance.now() + 1e3 * seconds;
  for (;;) {
    const start = performance.now();
    await run();
    const stop = performance.now();
    best = Math.min(best, stop - start);
    if (stop >= end) return best / 1e3;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    if (request.op === 'hello') {
      ort = require('onnxruntime-node');
      answer = { ok: true, version: `onnxruntime-node ${require('onnxruntime-node/package.json').version}` };
    } else if (request.op === 'setup') {
      await setUp(request);
      answer = { ok: true, compare: true };
    } else {
      answer = { ok: true, seconds: await bestTime(request.seconds) };
    }
  } catch (error) {
    answer = { ok: false, reason: String(error.message).split('\n')[0] };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
