/**
 * The thread where strangers' schemas are met first. It may run out of time or memory: then it is ended and a new
 * one started, and the gateway has lost nothing. Imports nothing from other rooms, so it starts on its own.
 */
import { parentPort } from "node:worker_threads";
import { type Compiler, loadCompiler, type SchemaIssue, type Validator } from "./compile-validator.ts";
import { type Vetted, vetSchema } from "./vet-schema.ts";

export type WorkerTask =
  | { kind: "vet"; text: string }
  | { kind: "check"; key: string; text: string; value: unknown };

export type WorkerReply =
  | { kind: "vetted"; vetted: Vetted }
  | { kind: "checked"; issues: SchemaIssue[] }
  | { kind: "failed"; why: string };

const KEPT = 32;

async function serve(port: NonNullable<typeof parentPort>): Promise<void> {
  const compiler = await loadCompiler();
  // Loading the meta-schemas takes longer than most schemas do; it must not count against them.
  compiler.compile({}, false);
  const validators = new Map<string, Validator>();
  port.on("message", (task: WorkerTask) => port.postMessage(answer(task, compiler, validators)));
  port.postMessage("ready");
}

function answer(task: WorkerTask, compiler: Compiler, validators: Map<string, Validator>): WorkerReply {
  try {
    if (task.kind === "vet") return { kind: "vetted", vetted: vetSchema(compiler, task.text) };
    let validate = validators.get(task.key);
    if (validate === undefined) {
      validate = compiler.compile(JSON.parse(task.text), true);
      if (validators.size >= KEPT) validators.delete(validators.keys().next().value as string);
      validators.set(task.key, validate);
    }
    return { kind: "checked", issues: validate(task.value, false) };
  } catch (error) {
    return { kind: "failed", why: error instanceof Error ? error.message : String(error) };
  }
}

if (parentPort !== null) await serve(parentPort);
