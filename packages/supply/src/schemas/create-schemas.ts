/**
 * Plugin-supplied JSON Schemas (pkg.schema-files). The size of a schema is checked, then it is compiled and tried in a
 * worker, and only then used. Small inputs of cheap schemas are validated in the gateway (benchmark http.invoke),
 * everything else in a worker with a time limit.
 */
import type { SchemaCheck, SchemaIssue, Schemas } from "@backplane/ports";
import { type Compiler, loadCompiler, type Validator } from "./compile-validator.ts";
import { measureSize, type ValueSize } from "./measure-size.ts";
import { schemaError, serializeWithinLimits } from "./schema-limits.ts";
import { createSchemaThread, type SchemaThread, type ThreadReply } from "./schema-thread.ts";
import type { VettedSchema } from "./vet-schema.ts";

export interface SchemasOptions {
  /** The location of schema-worker, when the code was bundled elsewhere. */
  worker?: URL;
  vet_ms?: number;
  check_ms?: number;
  /** An idle worker is terminated after this time. */
  idle_ms?: number;
}

export interface ClosableSchemas extends Schemas {
  close(): Promise<void>;
}

const MAX_COMPILED = 512;
const IN_PROCESS_BYTES = 64 * 1024;
const FORMAT_BYTES = 8 * 1024;
/** A number of checks that takes about ten milliseconds. */
const IN_PROCESS_CHECKS = 1_000_000;
/** Collecting every issue costs memory, so it is limited to small inputs. */
const ALL_ISSUES_CHECKS = 20_000;
const PATTERN_MS = 10;
/**
 * A schema that repeatedly exceeds the time limit delays others. After this many times it is not evaluated for a while.
 */
const MAX_TIMEOUTS = 3;
const PAUSE_MS = 30_000;

export function createSchemas(options: SchemasOptions = {}): ClosableSchemas {
  const { vet_ms = 2_000, check_ms = 1_000, idle_ms = 5_000 } = options;
  const file = options.worker ?? workerFile();
  const vetting = createSchemaThread(file, idle_ms);
  const checking = createSchemaThread(file, idle_ms);
  const compiled = new Map<string, Promise<SchemaCheck>>();
  let compiler: Promise<Compiler> | undefined;

  const build = async (key: string, schema: unknown): Promise<SchemaCheck> => {
    const text = serializeWithinLimits(schema);
    const vetted = toVettedSchema(await vetting.run({ kind: "vet", text }, vet_ms), vet_ms);
    const validateInWorker = checkInWorker(checking, key, text, check_ms);
    if (vetted.worker_only) return validateInWorker;
    compiler ??= loadCompiler();
    const validate = (await compiler).compile(JSON.parse(text), true);
    return (value) => {
      const size = measureSize(value, IN_PROCESS_BYTES);
      return isSmallWork(vetted, size)
        ? checkInProcess(validate, value, vetted, size)
        : validateInWorker(value);
    };
  };

  return {
    compile(key, schema) {
      let check = compiled.get(key);
      if (check === undefined) {
        check = build(key, schema);
        check.catch(() => compiled.delete(key));
      } else compiled.delete(key);
      // The map is ordered by last use; the first entry is evicted.
      compiled.set(key, check);
      if (compiled.size > MAX_COMPILED) compiled.delete(compiled.keys().next().value as string);
      return check;
    },
    async close() {
      await Promise.all([vetting.close(), checking.close()]);
    },
  };
}

function toVettedSchema(reply: ThreadReply, vet_ms: number): VettedSchema {
  if (reply.kind === "vetted") return reply.vetted;
  if (reply.kind === "failed") throw schemaError(reply.why.replace(/\.$/, ""));
  if (reply.kind === "too_slow")
    throw schemaError(`compiling and trying it takes longer than ${vet_ms} ms; simplify it`);
  throw schemaError(
    "compiling it takes too much memory; simplify it",
    reply.kind === "died" ? reply.why : undefined,
  );
}

function isSmallWork(vetted: VettedSchema, size: ValueSize): boolean {
  if (size.large || (vetted.formats && size.bytes > FORMAT_BYTES)) return false;
  if (vetted.pattern_ms * (size.bytes / IN_PROCESS_BYTES) > PATTERN_MS) return false;
  return estimateChecks(vetted, size) <= IN_PROCESS_CHECKS;
}

function estimateChecks({ weight, quadratic }: VettedSchema, { values }: ValueSize): number {
  return weight * values * (quadratic ? values : 1);
}

function checkInProcess(
  validate: Validator,
  value: unknown,
  vetted: VettedSchema,
  size: ValueSize,
): SchemaIssue[] {
  try {
    return validate(value, estimateChecks(vetted, size) <= ALL_ISSUES_CHECKS);
  } catch {
    return [{ path: "", message: "cannot be compared with the schema" }];
  }
}

function checkInWorker(thread: SchemaThread, key: string, text: string, check_ms: number): SchemaCheck {
  const too_long = [{ path: "", message: `comparing it with the schema takes longer than ${check_ms} ms` }];
  let timeouts = 0;
  let paused_until = 0;
  return async (value) => {
    if (performance.now() < paused_until) return too_long;
    let reply: ThreadReply;
    try {
      reply = await thread.run({ kind: "check", key, text, value }, check_ms);
    } catch {
      return [{ path: "", message: "is not a JSON value" }];
    }
    if (reply.kind === "checked") {
      timeouts = 0;
      return reply.issues;
    }
    if (reply.kind === "too_slow" && ++timeouts >= MAX_TIMEOUTS) {
      timeouts = 0;
      paused_until = performance.now() + PAUSE_MS;
    }
    if (reply.kind === "too_slow") return too_long;
    return [{ path: "", message: "cannot be compared with the schema" }];
  };
}

/** The worker is in the same folder, both in the sources and in the build. */
function workerFile(): URL {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return new URL(`./schema-worker.${extension}`, import.meta.url);
}
