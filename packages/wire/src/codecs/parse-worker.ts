/**
 * The source code of the parser thread. It is a string that is started with `eval`, so that it works from sources, from
 * a build and from a bundle. It performs the same checks as parse-frame.ts; one table of tests covers both.
 */
export const PARSE_WORKER = `
"use strict";
const { isUtf8 } = require("node:buffer");
const { parentPort } = require("node:worker_threads");
const CHUNK_SIZE = 128 * 1024;
const NODE_SIZE = 8;
let chunks;

parentPort.on("message", (message) => {
  if (message === "more") return sendNext();
  const bytes = Buffer.from(message.body.buffer, message.body.byteOffset, message.body.byteLength);
  if (!isUtf8(bytes)) return parentPort.postMessage({ problem: "a frame must be UTF-8" });
  let value;
  try {
    value = JSON.parse(bytes.toString());
  } catch {
    return parentPort.postMessage({ problem: "a frame must be JSON" });
  }
  const problem = check(value, message.depth);
  if (problem !== undefined) return parentPort.postMessage({ problem });
  chunks = splitIntoChunks(value);
  sendNext();
});

function sendNext() {
  const next = chunks.next();
  if (next.done) chunks = undefined;
  parentPort.postMessage(next.done ? { done: true } : { steps: JSON.stringify(next.value) });
}

function check(value, depth) {
  if (typeof value === "string") return value.isWellFormed() ? undefined : "a string has a lone surrogate";
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return "JSON is nested too deeply";
  if (Array.isArray(value)) {
    for (const item of value) {
      const problem = check(item, depth - 1);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
  for (const key in value) {
    if (key === "__proto__") return "a key must not be __proto__";
    const inner = value[key];
    if (key === "constructor" && typeof inner === "object" && inner !== null && Object.hasOwn(inner, "prototype"))
      return "a key must not reach a prototype";
    if (!key.isWellFormed()) return "a key has a lone surrogate";
    const problem = check(inner, depth - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Yields lists of steps. Applying one list costs the main thread about CHUNK_SIZE units of work. */
function* splitIntoChunks(value) {
  let steps = [];
  let chunkSize = 0;
  function* add(step, stepSize) {
    steps.push(step);
    chunkSize += stepSize;
    if (chunkSize < CHUNK_SIZE) return;
    yield steps;
    steps = [];
    chunkSize = 0;
  }
  function* walk(key, container) {
    const isArray = Array.isArray(container);
    yield* add(["open", key, isArray ? "array" : "object"], NODE_SIZE);
    let batch = isArray ? [] : {};
    let size = 0;
    const flush = function* () {
      if (size > 0) yield* add([isArray ? "items" : "entries", batch], size);
      batch = isArray ? [] : {};
      size = 0;
    };
    for (const name of isArray ? container.keys() : Object.keys(container)) {
      const inner = container[name];
      const innerSize = estimateSize(inner);
      if (innerSize >= CHUNK_SIZE && typeof inner === "object") {
        yield* flush();
        yield* walk(isArray ? null : name, inner);
        continue;
      }
      if (isArray) batch.push(inner);
      else batch[name] = inner;
      size += innerSize + (isArray ? 0 : name.length);
      if (chunkSize + size >= CHUNK_SIZE) yield* flush();
    }
    yield* flush();
    yield* add(["close"], NODE_SIZE);
  }
  if (typeof value === "object" && value !== null) yield* walk(null, value);
  else steps.push(["value", value]);
  if (steps.length > 0) yield steps;
}

/** Estimates the length of the value as JSON; stops counting at CHUNK_SIZE. */
function estimateSize(value) {
  if (typeof value === "string") return value.length + NODE_SIZE;
  if (typeof value !== "object" || value === null) return NODE_SIZE;
  let sum = NODE_SIZE;
  for (const name of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    sum += estimateSize(value[name]) + NODE_SIZE;
    if (sum >= CHUNK_SIZE) return CHUNK_SIZE;
  }
  return sum;
}
`;
