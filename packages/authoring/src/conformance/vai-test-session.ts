/**
 * One process of a `vai.rpc.v1` plugin, as the suite sees it: it can send any bytes, and every frame that arrives is
 * compared with the rules that hold at any time. A broken rule that leaves the stream readable is noted, and the session
 * goes on; any other ends the process.
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
import { BrokenRule } from "./broken-rule.ts";
import type { ConformanceLimits } from "./limits.ts";
import type { VaiRule } from "./rules.ts";
import { Transcript, type TranscriptLine } from "./transcript.ts";

const PROTOCOL = "vai.rpc.v1";
const STDERR_CHARS = 16_384;
const SHOWN_FRAMES = 8;
const SHOWN_STDERR = 2_000;
const PAUSE_MS = 20;

export interface Exchange {
  id: string;
  /** Rejects with a BrokenRule or a ProcessEnded. */
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
  readonly #violations: BrokenRule[] = [];
  /** Rejects when the stream cannot be read any further or the process has exited. */
  readonly #over: Promise<never>;
  #end: (error: Error) => void = () => {};
  #greeting: Pending | null = null;
  #greeted = false;
  #stderr = "";
  #exit: ProgramExit | null = null;
  #count = 0;
  #calls = 0;
  #stopped = false;
  #exitExpected = false;

  constructor(program: StartedProgram, limits: ConformanceLimits) {
    this.#program = program;
    this.limits = limits;
    this.#over = new Promise((_, reject) => {
      this.#end = reject;
    });
    this.#over.catch(() => {});
    this.#decoder = new ContentLengthDecoder(
      frameLimits(),
      (frame) => this.#receive(frame),
      (error) => this.#fail(toBrokenRule(error)),
    );
    program.stdout.on("data", (chunk: Buffer) => this.#decoder.push(chunk));
    program.stderr.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_CHARS);
      this.#lookForSecrets(chunk.toString(), "stderr");
    });
    void program.exit.then((exit) => {
      this.#exit = exit;
      const ended = `The process ended. ${exit.message}`;
      // Otherwise the check that waits for an answer reports the exit.
      const idle = this.#greeted && this.#pending.size === 0 && !this.#exitExpected && !this.#stopped;
      if (idle) this.#note(new BrokenRule("start.runs", `${ended} It was not told to stop.`));
      this.#end(new ProcessEnded(ended));
    });
  }

  /** True while requests can be sent. */
  get usable(): boolean {
    return this.#exit === null && !this.#stopped;
  }

  /** The end of stderr, without secrets. */
  get stderr(): string {
    return this.redact(this.#stderr.slice(-SHOWN_STDERR));
  }

  /** The last frames, without secrets. */
  lastFrames(): TranscriptLine[] {
    return this.#transcript.last(SHOWN_FRAMES).map((line) => ({ ...line, text: this.redact(line.text) }));
  }

  redact(text: string): string {
    return this.#redactor?.text(text) ?? text;
  }

  /** Numbers calls, so that each has its own ids. */
  nextNumber(): number {
    return ++this.#calls;
  }

  /** The rules that were broken since the last call. */
  takeViolations(): BrokenRule[] {
    return this.#violations.splice(0);
  }

  /** These values must not appear in the output. */
  hide(values: readonly string[]): void {
    if (values.length === 0) return;
    for (const value of values) this.#secrets.add(value);
    this.#redactor = createRedactor([...this.#secrets]);
  }

  makeScratch(name: string): Promise<string | null> {
    return this.#program.makeScratch(name);
  }

  async hello(host_version: string, identity: { package_id: string; version: string }): Promise<void> {
    const answer = new Promise<JsonObject>((resolve, reject) => {
      this.#greeting = { resolve, reject };
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
        this.missing("hello.answers", "The plugin did not answer the hello"),
      );
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error;
      const reason = await this.#program.explainExit(this.#exit!, this.#stderr);
      throw new BrokenRule("start.runs", reason);
    }
    const { protocol, role, plugin } = hello;
    if (protocol !== PROTOCOL || role !== "plugin" || !isObject(plugin))
      throw new BrokenRule("hello.shape", "The hello lacks a field or has another value for it.", hello);
    for (const field of ["package_id", "version"] as const) {
      if (typeof plugin[field] !== "string")
        throw new BrokenRule("hello.shape", `plugin.${field} of the hello is not a string.`, hello);
      if (plugin[field] !== identity[field])
        throw new BrokenRule(
          "hello.identity",
          `The hello names ${field} ${JSON.stringify(plugin[field])}, the manifest ${JSON.stringify(identity[field])}.`,
          hello,
        );
    }
  }

  /** Sends a request, in the framing of `encode` if there is one. */
  request(op: string, body: JsonObject, encode?: (frame: JsonObject) => (string | Buffer)[]): Exchange {
    const { id, frame, response } = this.prepare(op, body);
    this.#transcript.add("host", frame);
    void this.#write(encode === undefined ? [encodeContentLength(frame)] : encode(frame));
    return { id, response };
  }

  /** A request that is not sent yet. */
  prepare(op: string, body: JsonObject): Exchange & { frame: JsonObject } {
    const id = `req_${++this.#count}`;
    const answer = new Promise<JsonObject>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
    });
    answer.catch(() => {});
    const response = Promise.race([answer, this.#over]);
    response.catch(() => {});
    return { id, frame: { protocol: PROTOCOL, type: "request", id, op, body }, response };
  }

  send(frame: JsonObject): void {
    this.#transcript.add("host", frame);
    void this.#write([encodeContentLength(frame)]);
  }

  /** Sends bytes that are not one whole frame; `shown` describes them in the transcript. */
  sendRaw(bytes: string, shown: string): void {
    this.#transcript.add("host", shown);
    void this.#write([bytes]);
  }

  /** Lets the plugin read what was sent, so that the next bytes arrive separately. */
  pause(): Promise<void> {
    return new Promise((resolve) => void this.#program.after(PAUSE_MS, resolve));
  }

  closeInput(): void {
    this.#transcript.add("host", "(end of stdin)");
    this.#program.stdin.end();
  }

  /** Waits for the exit, in the process's own time. Frames that arrive until then are still checked. */
  async waitForExit(rule: VaiRule, after: string): Promise<ProgramExit> {
    const ms = this.limits.exit_ms;
    this.#exitExpected = true;
    let stop = () => {};
    const late = new Promise<never>((_, reject) => {
      stop = this.#program.after(ms, () =>
        reject(new BrokenRule(rule, `The process was still running ${ms} ms after ${after}.`)),
      );
    });
    try {
      return await Promise.race([this.#program.exit, late]);
    } finally {
      stop();
    }
  }

  /** Rejects with `late()` after `ms` of the process's own time. */
  async within<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
    let stop = () => {};
    const timeout = new Promise<never>((_, reject) => {
      stop = this.#program.after(ms, () => reject(late()));
    });
    try {
      return await Promise.race([work, timeout, this.#over]);
    } finally {
      stop();
    }
  }

  /** Nothing arrived, or only a part of a frame. */
  missing(rule: VaiRule, what: string): BrokenRule {
    const partial = this.#decoder.strayOutput();
    if (partial === "") return new BrokenRule(rule, `${what}.`);
    return new BrokenRule(
      "frame.body",
      `${what}: its last frame is incomplete, or Content-Length is larger than the body.`,
      partial,
    );
  }

  /** Ends the process and waits until it is gone. */
  async close(): Promise<void> {
    this.#stopped = true;
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
    this.#lookForSecrets(JSON.stringify(frame), "a frame");
    if (!this.#greeted) {
      this.#receiveHello(frame);
      return;
    }
    if (frame.type === "hello")
      this.#note(new BrokenRule("hello.once", "The plugin sent a second hello.", frame));
    else if (frame.type === "response") this.#receiveResponse(frame);
    else if (frame.type === "event") this.#receiveEvent(frame);
    else
      this.#note(
        new BrokenRule(
          "frame.type",
          `A plugin does not send frames of type ${JSON.stringify(frame.type ?? null)}.`,
          frame,
        ),
      );
  }

  #receiveHello(frame: JsonObject): void {
    this.#greeted = true;
    if (frame.type === "hello") this.#greeting?.resolve(frame);
    else
      this.#greeting?.reject(
        new BrokenRule("hello.shape", "The first frame of the plugin is not a hello.", frame),
      );
  }

  #receiveResponse(frame: JsonObject): void {
    const { id } = frame;
    const pending = typeof id === "string" ? this.#pending.get(id) : undefined;
    if (pending === undefined) {
      const again = typeof id === "string" && this.#answered.has(id);
      this.#note(
        again
          ? new BrokenRule("response.once", `The request ${id} was answered a second time.`, frame)
          : new BrokenRule("response.id", `No request has the id ${JSON.stringify(id ?? null)}.`, frame),
      );
      return;
    }
    this.#pending.delete(id as string);
    this.#answered.add(id as string);
    const problem = checkVaiResponse(frame);
    if (problem === undefined) pending.resolve(frame);
    else pending.reject(new BrokenRule("response.shape", `The response is invalid: ${problem}.`, frame));
  }

  #receiveEvent(frame: JsonObject): void {
    const problem = checkVaiEvent(frame);
    const { request_id } = frame;
    if (problem !== undefined)
      this.#note(new BrokenRule("event.shape", `The event is invalid: ${problem}.`, frame));
    else if (!this.#pending.has(request_id as string))
      this.#note(
        new BrokenRule(
          "event.belongs",
          this.#answered.has(request_id as string)
            ? `The event came after the response to ${request_id as string}.`
            : `No request has the id ${JSON.stringify(request_id)}.`,
          frame,
        ),
      );
  }

  #lookForSecrets(text: string, where: string): void {
    const redacted = this.redact(text);
    if (redacted !== text)
      this.#note(new BrokenRule("secrets.hidden", `A secret of the call is in ${where}.`, redacted.trim()));
  }

  #note(broken: BrokenRule): void {
    this.#violations.push(broken);
  }

  #fail(broken: BrokenRule | null): void {
    // A process that exits while it writes leaves half a frame; its exit is reported instead.
    if (broken === null) return;
    if (broken.frame !== null) this.#transcript.add("plugin", broken.frame);
    // Noted too, because no check may be waiting.
    this.#note(broken);
    this.#stopped = true;
    this.#end(broken);
    this.#program.kill();
  }
}

function toBrokenRule(error: BackplaneError): BrokenRule | null {
  const { details = {} } = error;
  if (details.truncated === true) return null;
  const stray_output = typeof details.stray_output === "string" ? details.stray_output : null;
  if (error.code === "frame_too_large") return new BrokenRule("frame.limits", error.message, stray_output);
  if (details.part === "header")
    return new BrokenRule("stdout.frames", "stdout contains something other than frames.", stray_output);
  const depth = error.message.includes("nested too deeply");
  return new BrokenRule(depth ? "frame.limits" : "frame.body", error.message, stray_output);
}
