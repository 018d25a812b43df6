/**
 * The thread that compiles and evaluates untrusted schemas. When it runs out of time or memory, it is terminated and
 * replaced without affecting the gateway. The files that it loads import only types from other modules (`packages/*`),
 * so that it can start without them.
 */
import { parentPort } from "node:worker_threads";
import type { SchemaIssue } from "@backplane/ports";
import { type Compiler, loadCompiler, type Validator } from "./compile-validator.ts";
import { type VettedSchema, vetSchema } from "./vet-schema.ts";

export type WorkerTask =
  | { kind: "vet"; text: string }
  | { kind: "check"; key: string; text: string; value: unknown };

export type WorkerReply =
  | { kind: "vetted"; vetted: VettedSchema }
  | { kind: "checked"; issues: SchemaIssue[] }
  | { kind: "failed"; why: string };

const MAX_VALIDATORS = 32;

async function serve(port: NonNullable<typeof parentPort>): Promise<void> {
  const compiler = await loadCompiler();
  // Loading the meta-schemas takes longer than compiling most schemas, and must not count against their time limit.
  compiler.compile({}, false);
  const validators = new Map<string, Validator>();
  port.on("message", (task: WorkerTask) => port.postMessage(runTask(task, compiler, validators)));
  port.postMessage("ready");
}

function runTask(task: WorkerTask, compiler: Compiler, validators: Map<string, Validator>): WorkerReply {
  try {
    if (task.kind === "vet") return { kind: "vetted", vetted: vetSchema(compiler, task.text) };
    let validate = validators.get(task.key);
    if (validate === undefined) {
      validate = compiler.compile(JSON.parse(task.text), true);
      if (validators.size >= MAX_VALIDATORS) validators.delete(validators.keys().next().value as string);
      validators.set(task.key, validate);
    }
    return { kind: "checked", issues: validate(task.value, false) };
  } catch (error) {
    return { kind: "failed", why: error instanceof Error ? error.message : String(error) };
  }
}

if (parentPort !== null) await serve(parentPort);
