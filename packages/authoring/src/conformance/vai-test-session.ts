/**
 * The suite's session with one process of a `vai.rpc.v1` plugin. The suite can send any bytes, and every frame from
 * the plugin is checked against the rules that apply at any time. A violation is recorded, and the session continues if
 * the stream is still readable; otherwise the process is ended.
 */
import {
  type BackplaneError,
  createRedactor,
  isObject,
  type JsonObject,
  type Redactor,
} from "@backplane/contract";
import type { ProgramExit, StartedProgram } from "@backplane/runner";
import {
  ContentLengthDecoder,
  checkVaiEvent,
  checkVaiResponse,
  encodeContentLength,
  frameLimits,
} from "@backplane/wire";
import type { ConformanceLimits } from "./limits.ts";
import { RuleViolation } from "./rule-violation.ts";
import type { VaiRule } from "./rules.ts";
import { Transcript, type TranscriptLine } from "./transcript.ts";

const PROTOCOL = "vai.rpc.v1";
const STDERR_CHARS = 16_384;
const MAX_REPORTED_FRAMES = 8;
const MAX_REPORTED_STDERR = 2_000;
const PAUSE_MS = 20;

export interface Exchange {
  id: string;
  /** Rejects with a RuleViolation or a ProcessEnded. */
  response: Promise<JsonObject>;
}

/** The process exited while an answer was expected. */
export class ProcessEnded extends Error {}

interface Pending {
  resolve(frame: JsonObject): void;
  reject(error: Error): void;
}

export class VaiTestSession {
  readonly #program: StartedProgram;
  readonly limits: ConformanceLimits;
  readonly #transcript = new Transcript();
  readonly #decoder: ContentLengthDecoder;
  readonly #pending = new Map<string, Pending>();
  readonly #answered = new Set<string>();
  readonly #secrets = new Set<string>();
  #redactor: Redactor | null = null;
  /** Each violation with the last frames before it, which later frames would otherwise push out of the report. */
  readonly #violations: { violation: RuleViolation; frames: TranscriptLine[] }[] = [];
  /** Rejects when the stream cannot be read any further or the process has exited. */
  readonly #ended: Promise<never>;
  #rejectEnded: (error: Error) => void = () => {};
  #pending_hello: Pending | null = null;
  #hello_received = false;
  #stderr = "";
  #exit: ProgramExit | null = null;
  #last_request_number = 0;
  #last_call_number = 0;
  #closed = false;
  #exit_expected = false;

  constructor(program: StartedProgram, limits: ConformanceLimits) {
    this.#program = program;
    this.limits = limits;
    this.#ended = new Promise((_, reject) => {
      this.#rejectEnded = reject;
    });
    this.#ended.catch(() => {});
    this.#decoder = new ContentLengthDecoder(
      frameLimits(),
      (frame) => this.#receive(frame),
      (error) => this.#fail(toRuleViolation(error)),
    );
    program.stdout.on("data", (chunk: Buffer) => this.#decoder.push(chunk));
    program.stderr.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_CHARS);
      this.#checkForSecrets(chunk.toString(), "stderr");
    });
    void program.exit.then((exit) => {
      this.#exit = exit;
      const ended = `The process ended. ${exit.message}`;
      // If a check waits for an answer, that check reports the exit.
      const idle = this.#hello_received && this.#pending.size === 0 && !this.#exit_expected && !this.#closed;
      if (idle) this.#recordViolation(new RuleViolation("start.runs", `${ended} It was not told to stop.`));
      this.#rejectEnded(new ProcessEnded(ended));
    });
  }

  /** True while requests can be sent. */
  get usable(): boolean {
    return this.#exit === null && !this.#closed;
  }

  /** The end of stderr, without secrets. */
  get stderr(): string {
    return this.redact(this.#stderr.slice(-MAX_REPORTED_STDERR));
  }

  /** The last frames, without secrets. */
  lastFrames(): TranscriptLine[] {
    return this.#redactFrames(this.#transcript.last(MAX_REPORTED_FRAMES));
  }

  #redactFrames(frames: TranscriptLine[]): TranscriptLine[] {
    return frames.map((line) => ({ ...line, text: this.redact(line.text) }));
  }

  redact(text: string): string {
    return this.#redactor?.text(text) ?? text;
  }

  /** The number makes the ids of each call distinct. */
  nextCallNumber(): number {
    return ++this.#last_call_number;
  }

  /** Returns and clears the rules broken since the previous call, each with the last frames up to its violation. */
  takeViolations(): { violation: RuleViolation; transcript: TranscriptLine[] }[] {
    return this.#violations
      .splice(0)
      .map(({ violation, frames }) => ({ violation, transcript: this.#redactFrames(frames) }));
  }

  /** Adds values that must not appear in the plugin's output. */
  addSecrets(values: readonly string[]): void {
    if (values.length === 0) return;
    for (const value of values) this.#secrets.add(value);
    this.#redactor = createRedactor([...this.#secrets]);
  }

  makeScratch(name: string): Promise<string | null> {
    return this.#program.makeScratch(name);
  }

  async hello(host_version: string, identity: { package_id: string; version: string }): Promise<void> {
    const answer = new Promise<JsonObject>((resolve, reject) => {
      this.#pending_hello = { resolve, reject };
    });
    this.send({
      protocol: PROTOCOL,
      type: "hello",
      role: "host",
      host: { name: "backplane", version: host_version },
    });
    let hello: JsonObject;
    try {
      hello = await this.within(answer, this.limits.hello_ms, () =>
        this.missingAnswer("hello.answers", "The plugin did not answer the hello"),
      );
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error;
      const reason = await this.#program.explainExit(this.#exit!, this.#stderr);
      throw new RuleViolation("start.runs", reason);
    }
    const { protocol, role, plugin } = hello;
    if (protocol !== PROTOCOL || role !== "plugin" || !isObject(plugin))
      throw new RuleViolation("hello.shape", "A field of the hello is missing or has a wrong value.", hello);
    for (const field of ["package_id", "version"] as const) {
      if (typeof plugin[field] !== "string")
        throw new RuleViolation("hello.shape", `plugin.${field} of the hello is not a string.`, hello);
      if (plugin[field] !== identity[field])
        throw new RuleViolation(
          "hello.identity",
          `${field} is ${JSON.stringify(plugin[field])} in the hello, but ${JSON.stringify(identity[field])} in the manifest.`,
          hello,
        );
    }
  }

  /** Sends a request. `encode` replaces the usual framing. */
  request(op: string, body: JsonObject, encode?: (frame: JsonObject) => (string | Buffer)[]): Exchange {
    const { id, frame, response } = this.prepare(op, body);
    this.#transcript.add("host", frame);
    void this.#write(encode === undefined ? [encodeContentLength(frame)] : encode(frame));
    return { id, response };
  }

  /** Builds a request that the caller sends later. */
  prepare(op: string, body: JsonObject): Exchange & { frame: JsonObject } {
    const id = `req_${++this.#last_request_number}`;
    const answer = new Promise<JsonObject>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
    });
    answer.catch(() => {});
    const response = Promise.race([answer, this.#ended]);
    response.catch(() => {});
    return { id, frame: { protocol: PROTOCOL, type: "request", id, op, body }, response };
  }

  send(frame: JsonObject): void {
    this.#transcript.add("host", frame);
    void this.#write([encodeContentLength(frame)]);
  }

  /** Sends bytes that are not exactly one frame; `description` replaces them in the transcript. */
  sendRaw(bytes: string, description: string): void {
    this.#transcript.add("host", description);
    void this.#write([bytes]);
  }

  /** Gives the plugin time to read the bytes sent so far, so that the next bytes arrive separately. */
  pause(): Promise<void> {
    return new Promise((resolve) => void this.#program.after(PAUSE_MS, resolve));
  }

  closeInput(): void {
    this.#transcript.add("host", "(end of stdin)");
    this.#program.stdin.end();
  }

  /** Rejects if the process does not exit within the limit. Frames that arrive until then are still checked. */
  async waitForExit(rule: VaiRule, after: string): Promise<ProgramExit> {
    const ms = this.limits.exit_ms;
    this.#exit_expected = true;
    let stop = () => {};
    const timeout = new Promise<never>((_, reject) => {
      stop = this.#program.after(ms, () =>
        reject(new RuleViolation(rule, `The process was still running ${ms} ms after ${after}.`)),
      );
    });
    try {
      return await Promise.race([this.#program.exit, timeout]);
    } finally {
      stop();
    }
  }

  /** Rejects with `timeoutError()` after `ms`, extended while the process gets little CPU time. */
  async within<T>(work: Promise<T>, ms: number, timeoutError: () => Error): Promise<T> {
    let stop = () => {};
    const timeout = new Promise<never>((_, reject) => {
      stop = this.#program.after(ms, () => reject(timeoutError()));
    });
    try {
      return await Promise.race([work, timeout, this.#ended]);
    } finally {
      stop();
    }
  }

  /** Builds the violation for an answer that did not arrive or arrived only in part. */
  missingAnswer(rule: VaiRule, problem: string): RuleViolation {
    const partial = this.#decoder.strayOutput();
    if (partial === "") return new RuleViolation(rule, `${problem}.`);
    return new RuleViolation(
      "frame.body",
      `${problem}: its last frame is incomplete, or Content-Length is larger than the body.`,
      partial,
    );
  }

  /** Ends the process and waits until it is gone. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#program.kill();
    await this.#program.exit;
  }

  async #write(chunks: (string | Buffer)[]): Promise<void> {
    for (const [index, chunk] of chunks.entries()) {
      if (index > 0) await this.pause();
      if (this.#program.stdin.writable) this.#program.stdin.write(chunk);
    }
  }

  #receive(frame: JsonObject): void {
    this.#transcript.add("plugin", frame);
    this.#checkForSecrets(JSON.stringify(frame), "a frame");
    if (!this.#hello_received) {
      this.#receiveHello(frame);
      return;
    }
    if (frame.type === "hello")
      this.#recordViolation(new RuleViolation("hello.once", "The plugin sent a second hello.", frame));
    else if (frame.type === "response") this.#receiveResponse(frame);
    else if (frame.type === "event") this.#receiveEvent(frame);
    else
      this.#recordViolation(
        new RuleViolation(
          "frame.type",
          `A plugin must not send frames of type ${JSON.stringify(frame.type ?? null)}.`,
          frame,
        ),
      );
  }

  #receiveHello(frame: JsonObject): void {
    this.#hello_received = true;
    if (frame.type === "hello") this.#pending_hello?.resolve(frame);
    else
      this.#pending_hello?.reject(
        new RuleViolation("hello.shape", "The first frame of the plugin is not a hello.", frame),
      );
  }

  #receiveResponse(frame: JsonObject): void {
    const { id } = frame;
    const pending = typeof id === "string" ? this.#pending.get(id) : undefined;
    if (pending === undefined) {
      const again = typeof id === "string" && this.#answered.has(id);
      this.#recordViolation(
        again
          ? new RuleViolation("response.once", `The request ${id} was answered a second time.`, frame)
          : new RuleViolation("response.id", `No request has the id ${JSON.stringify(id ?? null)}.`, frame),
      );
      return;
    }
    this.#pending.delete(id as string);
    this.#answered.add(id as string);
    const problem = checkVaiResponse(frame);
    if (problem === undefined) pending.resolve(frame);
    else pending.reject(new RuleViolation("response.shape", `The response is invalid: ${problem}.`, frame));
  }

  #receiveEvent(frame: JsonObject): void {
    const problem = checkVaiEvent(frame);
    const { request_id } = frame;
    if (problem !== undefined)
      this.#recordViolation(new RuleViolation("event.shape", `The event is invalid: ${problem}.`, frame));
    else if (!this.#pending.has(request_id as string))
      this.#recordViolation(
        new RuleViolation(
          "event.belongs",
          this.#answered.has(request_id as string)
            ? `The event came after the response to ${request_id as string}.`
            : `No request has the id ${JSON.stringify(request_id)}.`,
          frame,
        ),
      );
  }

  #checkForSecrets(text: string, where: string): void {
    const redacted = this.redact(text);
    if (redacted !== text)
      this.#recordViolation(
        new RuleViolation("secrets.hidden", `A secret of the call is in ${where}.`, redacted.trim()),
      );
  }

  #recordViolation(violation: RuleViolation): void {
    this.#violations.push({ violation, frames: this.#transcript.last(MAX_REPORTED_FRAMES) });
  }

  #fail(violation: RuleViolation | null): void {
    // A process that exits while it writes leaves half a frame; its exit is reported instead.
    if (violation === null) return;
    if (violation.frame !== null) this.#transcript.add("plugin", violation.frame);
    // Also recorded, because there may be no check that waits for an answer.
    this.#recordViolation(violation);
    this.#closed = true;
    this.#rejectEnded(violation);
    this.#program.kill();
  }
}

function toRuleViolation(error: BackplaneError): RuleViolation | null {
  const { details = {} } = error;
  if (details.truncated === true) return null;
  const stray_output = typeof details.stray_output === "string" ? details.stray_output : null;
  if (error.code === "frame_too_large") return new RuleViolation("frame.limits", error.message, stray_output);
  if (details.part === "header")
    return new RuleViolation("stdout.frames", "stdout contains something other than frames.", stray_output);
  const too_deep = error.message.includes("nested too deeply");
  return new RuleViolation(too_deep ? "frame.limits" : "frame.body", error.message, stray_output);
}
