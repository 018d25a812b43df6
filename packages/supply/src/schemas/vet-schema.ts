/** Compiles an untrusted schema and tries it with expensive inputs, to decide where it may run. Runs in the worker. */
import type { AnySchema } from "ajv";
import { analyzeSchema, type SchemaShape } from "./analyze-schema.ts";
import type { Compiler } from "./compile-validator.ts";

export interface VettedSchema {
  /** Whether the schema is evaluated only in the worker, with a time limit. */
  worker_only: boolean;
  /** Maximum number of checks per value; see analyze-schema.ts. */
  weight: number;
  quadratic: boolean;
  formats: boolean;
  /** The estimated time of all patterns together for 64 KiB of text. */
  pattern_ms: number;
}

const COMPILE_MS = 50;
const PATTERN_MS = 50;
const VALIDATE_MS = 50;
const SAMPLE_BYTES = 16 * 1024;
const MAX_WEIGHT = 20_000;

export function vetSchema(compiler: Compiler, text: string): VettedSchema {
  const schema = JSON.parse(text) as AnySchema;
  const shape = analyzeSchema(schema);
  for (const pattern of shape.patterns.keys()) compiler.compilePattern(pattern);
  const validate = compiler.compile(schema, false);
  const compile_ms = cpuTime(() => compiler.compile(schema, true));
  const pattern_ms = timePatterns(compiler, shape);
  const suspicious =
    shape.recursive || shape.weight > MAX_WEIGHT || compile_ms > COMPILE_MS || pattern_ms > PATTERN_MS;
  return {
    worker_only: suspicious || isSlow(validate, shape),
    weight: shape.weight,
    quadratic: shape.quadratic,
    formats: shape.formats,
    pattern_ms,
  };
}

/**
 * Estimates the time of all patterns for 64 KiB of text, each tested as often as the schema allows. Stops when the
 * limit is clearly exceeded.
 */
function timePatterns(compiler: Compiler, shape: SchemaShape): number {
  let total = 0;
  for (const [source, times] of shape.patterns) {
    const pattern = compiler.compilePattern(source);
    let worst = 0;
    for (const sample of textsFor(source)) {
      worst = Math.max(
        worst,
        cpuTime(() => pattern.test(sample)),
      );
    }
    total += worst * times * ((64 * 1024) / SAMPLE_BYTES);
    if (total > PATTERN_MS * 4) break;
  }
  return total;
}

/** Long repetitions of characters from the pattern, with an end that does not match. */
function textsFor(pattern: string): string[] {
  const letters = [...new Set(pattern.replace(/[^A-Za-z0-9 @._/-]/g, ""))].join("").slice(0, 32) || "a";
  const long = (unit: string) => unit.repeat(Math.ceil(SAMPLE_BYTES / unit.length)).slice(0, SAMPLE_BYTES);
  return [`${long("a")}!`, `${long(letters)}!`, `${long(letters[0] as string)}!`];
}

function isSlow(validate: (value: unknown, all: boolean) => unknown, shape: SchemaShape): boolean {
  for (const input of expensiveInputs([...shape.names])) {
    if (cpuTime(() => validate(input, false)) > VALIDATE_MS) return true;
  }
  return false;
}

/** CPU milliseconds of this thread, so that other load on the machine does not count. */
function cpuTime(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

/** Wide, deep, long and repetitive values with the property names of the schema. */
function* expensiveInputs(names: string[]): Generator<unknown> {
  const keys = names.length > 0 ? names : ["a"];
  const flat = (leaf: unknown) => Object.fromEntries(keys.map((key) => [key, leaf]));
  yield Array.from({ length: 1_000 }, (_, index) => index % 7);
  yield Array.from({ length: 200 }, () => flat("aaaaaaaaaaaaaaaa!"));
  yield flat(Array.from({ length: 100 }, () => flat(1)));
  yield flat(`${"a".repeat(4_096)}!`);
  for (const key of keys.slice(0, 8)) {
    let deep: unknown = "!";
    for (let level = 0; level < 24; level++) deep = level % 2 === 0 ? { [key]: deep } : { [key]: [deep] };
    yield deep;
    let chain: unknown = "!";
    for (let level = 0; level < 32; level++) chain = { ...flat(0), [key]: chain };
    yield chain;
  }
}
