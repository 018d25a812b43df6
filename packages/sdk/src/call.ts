/**
 * The context of the call that a handler serves. The signal and the gateway are created on first use, because
 * most handlers use neither.
 */
import type { ArtifactRef, Block, Grant, InvocationContext, Json, JsonObject } from "@backplane/contract";
import type { VaiCall } from "@backplane/wire";
import { readArtifact, writeArtifact } from "./artifact.ts";
import type { AgentAction, AgentPermission, Checkpoint, ChildRun, ChildRunRequest } from "./contracts.ts";
import { addBlocks, readBlocks, requestPermission } from "./conversation.ts";
import { createGatewayAccess, type GatewayAccess } from "./gateway-access.ts";
import { fail } from "./outcome.ts";

export type PluginEvent = { type: string; [key: string]: Json | undefined };

export interface Call<Config = JsonObject> {
  /**
   * Ids of the invocation, session, chain and run, the deadline and the scratch folder, named as on the wire.
   */
  readonly context: InvocationContext;
  /** The binding's configuration, checked by the gateway against the export's config_schema. */
  readonly config: Config;
  /** Values of the secret slots that the operator has bound. */
  readonly secrets: Readonly<Record<string, string | undefined>>;
  readonly grant: Grant;
  /** Aborted when the call is cancelled, its deadline passes, or the host shuts the plugin down or disconnects. */
  readonly signal: AbortSignal;
  readonly deadline: Date;
  readonly gateway: GatewayAccess;
  /** Milliseconds until the deadline, never below 0. */
  timeLeft(): number;
  /** Returns the value of a slot; an unbound slot ends the call with a failure that names the slot. */
  secret(slot: string): string;
  /** Reports the progress of the call to watchers. */
  progress(message: string, data?: Json): void;
  emit(event: PluginEvent): void;
  /** Resolves after the delay, and rejects as soon as the signal is aborted. */
  sleep(ms: number): Promise<void>;
  /**
   * Writes a file to the scratch folder. Return the reference anywhere in the answer, and the gateway stores the file.
   */
  writeArtifact(path: string, data: string | Uint8Array): Promise<ArtifactRef>;
  readArtifact(reference: ArtifactRef): Promise<Uint8Array>;
  /** Writes one line to stderr, which the gateway stores with the invocation. */
  log(...words: unknown[]): void;
}

export interface ToolCall<Config = JsonObject> extends Call<Config> {
  /** The same for all retries of one call, so it can be the key of an idempotent write. */
  readonly tool_execution_id: string;
}

export interface HookCall<Config = JsonObject> extends Call<Config> {
  /** The same for all attempts of one delivery. */
  readonly delivery_id: string;
  readonly attempt: number;
}

export interface HarnessCall<Config = JsonObject> extends Call<Config> {
  /** The gateway stores a checkpoint before any later event; a resumed harness gets the last one. */
  checkpoint(data: Json, kind?: string): void;
  /**
   * Starts a run and waits for its end. `key` names the run within the execution: a resumed harness that uses the same
   * key gets the same run instead of a second one. Needs the scope runs:write.
   */
  run(key: string, request: ChildRunRequest): Promise<ChildRun>;
  /** The blocks of the conversation since its last compaction, oldest first. Needs the scope chains:read. */
  readConversation(): Promise<Block[]>;
  /**
   * Adds the messages and actions of an agent of the harness to the conversation; they are on disk when the promise
   * resolves. Leave out the user's message, which the conversation already contains, and the summary, which is added
   * when the call ends. Needs the scope chains:write.
   */
  addToConversation(blocks: readonly Block[]): Promise<void>;
  /** Asks people whether an agent of the harness may do something in the sandbox. Needs the scope tools:invoke. */
  requestPermission(action: AgentAction): Promise<AgentPermission>;
}

/** setTimeout fires immediately for longer delays. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export class ServedCall implements ToolCall, HookCall, HarnessCall {
  readonly context: InvocationContext;
  readonly #wire: VaiCall;
  readonly #log: (line: string) => void;
  #abort: AbortController | undefined;
  #timer: NodeJS.Timeout | undefined;
  #gateway: GatewayAccess | undefined;

  constructor(wire: VaiCall, log: (line: string) => void) {
    this.context = wire.body.context;
    this.#wire = wire;
    this.#log = log;
  }

  get config(): JsonObject {
    return this.context.config;
  }
  get secrets(): Readonly<Record<string, string | undefined>> {
    return this.context.secrets;
  }
  get grant(): Grant {
    return this.context.grant;
  }
  get deadline(): Date {
    return new Date(this.context.deadline_at);
  }
  get tool_execution_id(): string {
    return this.#wire.body.tool_execution_id as string;
  }
  get delivery_id(): string {
    return this.#wire.body.delivery_id as string;
  }
  get attempt(): number {
    return this.#wire.body.attempt as number;
  }

  get gateway(): GatewayAccess {
    this.#gateway ??= createGatewayAccess(this.context.gateway, () => this.signal);
    return this.#gateway;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      const wire = this.#wire.signal;
      if (wire.aborted) abort.abort(wire.reason);
      else {
        wire.addEventListener("abort", () => abort.abort(wire.reason), { once: true });
        this.#timer = setTimeout(
          () => abort.abort(new Error("The deadline of this call has passed.")),
          Math.min(this.timeLeft(), MAX_TIMER_MS),
        );
      }
    }
    return this.#abort.signal;
  }

  timeLeft(): number {
    return Math.max(0, this.deadline.getTime() - Date.now());
  }

  secret(slot: string): string {
    return (
      this.secrets[slot] ?? fail(`The secret slot ${slot} is not bound. Map it in the binding's secrets.`)
    );
  }

  progress(message: string, data?: Json): void {
    this.emit(data === undefined ? { type: "progress", message } : { type: "progress", message, data });
  }

  emit(event: PluginEvent): void {
    this.#wire.emit(event as JsonObject & { type: string });
  }

  checkpoint(data: Json, kind = "checkpoint"): void {
    const checkpoint: Checkpoint = { kind, data };
    this.#wire.emit({ type: "checkpoint", checkpoint: checkpoint as unknown as JsonObject });
  }

  async run(key: string, request: ChildRunRequest): Promise<ChildRun> {
    for (;;) {
      // A retry with the same key waits for the same run.
      const body = await this.gateway.json<ChildRun>("/v1/runs?wait=20", {
        body: request,
        idempotency_key: key,
      });
      if (body.status !== "running") return body;
    }
  }

  readConversation(): Promise<Block[]> {
    return readBlocks(this.gateway, this.context);
  }

  addToConversation(blocks: readonly Block[]): Promise<void> {
    return addBlocks(this.gateway, this.context, blocks);
  }

  requestPermission(action: AgentAction): Promise<AgentPermission> {
    return requestPermission(this.gateway, action);
  }

  sleep(ms: number): Promise<void> {
    const signal = this.signal;
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(asError(signal.reason));
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, ms);
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
    });
  }

  writeArtifact(path: string, data: string | Uint8Array): Promise<ArtifactRef> {
    return writeArtifact(this.context.scratch_dir, path, data);
  }

  readArtifact(reference: ArtifactRef): Promise<Uint8Array> {
    return readArtifact(this.context.scratch_dir, reference);
  }

  log(...words: unknown[]): void {
    const line = words.map((word) => (typeof word === "string" ? word : JSON.stringify(word))).join(" ");
    this.#log(`[${this.context.invocation_id}] ${line}`);
  }

  /** True once the signal has been aborted, so the author's code should stop. */
  get cancelled(): boolean {
    return this.#wire.signal.aborted || (this.#abort?.signal.aborted ?? false);
  }

  /** Clears the deadline timer once the call is answered. */
  end(): void {
    clearTimeout(this.#timer);
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(`The call was cancelled: ${String(reason)}`);
}
