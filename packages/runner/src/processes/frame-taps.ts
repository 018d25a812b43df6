/**
 * Shows the frames between the gateway and the processes of a binding to observers, without secrets. Only a process
 * that starts while its binding is observed is tapped, so all others have no overhead. A tap reads copies of the bytes,
 * so bytes that it cannot decode do not affect a call.
 */
import { Buffer } from "node:buffer";
import {
  type BackplaneError,
  createRedactor,
  isId,
  isObject,
  type Json,
  type JsonObject,
  type Redactor,
} from "@backplane/contract";
import type { ObservedOutput, ProcessRequest } from "@backplane/ports";
import { ContentLengthDecoder, frameLimits, NdjsonDecoder, type Transport } from "@backplane/wire";
import type { RunnerLimits } from "../ports/settings.ts";

type Observer = (output: ObservedOutput) => void;

/** A frame may be a megabyte long, which is more than a person can read. */
const MAX_CHARS = 8_000;

export class FrameTaps {
  readonly #observers = new Map<string, Set<Observer>>();

  /** Returns a function that ends the observation. */
  observe(binding_ids: readonly string[], observer: Observer): () => void {
    for (const id of binding_ids) {
      const known = this.#observers.get(id) ?? new Set();
      this.#observers.set(id, known.add(observer));
    }
    return () => {
      for (const id of binding_ids) {
        const known = this.#observers.get(id);
        known?.delete(observer);
        if (known?.size === 0) this.#observers.delete(id);
      }
    };
  }

  /** Null if nobody observes the binding of the process, or its protocol is neither vai.rpc.v1 nor rterm.plugin.v1. */
  open(request: ProcessRequest | null, limits: RunnerLimits): FrameTap | null {
    if (request === null || !this.#observers.has(request.binding_id)) return null;
    const { protocol } = request.package.runtime;
    if (protocol !== "vai.rpc.v1" && protocol !== "rterm.plugin.v1") return null;
    const { binding_id } = request;
    return new FrameTap(protocol, limits, (output) => {
      for (const observer of this.#observers.get(binding_id) ?? []) observer({ binding_id, ...output });
    });
  }
}

export class FrameTap {
  readonly #emit: (output: Omit<ObservedOutput, "binding_id">) => void;
  readonly #sent: { push(chunk: Uint8Array): void };
  readonly #received: { push(chunk: Uint8Array): void };
  readonly #secrets = new Set<string>();
  #last_call: string | undefined;
  #redactor: Redactor | null = null;

  constructor(
    protocol: "vai.rpc.v1" | "rterm.plugin.v1",
    limits: RunnerLimits,
    emit: (output: Omit<ObservedOutput, "binding_id">) => void,
  ) {
    this.#emit = emit;
    const createDecoder = (from: "host" | "plugin") => {
      const onFrame = (frame: Json) => this.#showFrame(from, frame as JsonObject);
      const onFailure = (error: BackplaneError) => this.#showStrayOutput(error);
      return protocol === "vai.rpc.v1"
        ? new ContentLengthDecoder(frameLimits(limits), onFrame, onFailure)
        : new NdjsonDecoder<JsonObject>(frameLimits(limits), onFrame, onFailure);
    };
    this.#sent = createDecoder("host");
    this.#received = createDecoder("plugin");
  }

  /** The same transport, with a copy of its bytes for the observers. */
  wrap(transport: Transport): Transport {
    return {
      write: (data) => {
        this.#sent.push(typeof data === "string" ? Buffer.from(data) : data);
        return transport.write(data);
      },
      get queuedBytes() {
        return transport.queuedBytes;
      },
      onData: (listener) =>
        transport.onData((chunk) => {
          this.#received.push(chunk);
          listener(chunk);
        }),
      onDrain: (listener) => transport.onDrain(listener),
      onClose: (listener) => transport.onClose(listener),
      pause: () => transport.pause(),
      resume: () => transport.resume(),
      close: () => transport.close(),
    };
  }

  showStderr(chunk: Uint8Array): void {
    const text = Buffer.from(chunk).toString("utf8");
    this.#show("plugin", "stderr", this.#redactor?.excerpt(text) ?? text);
  }

  #showFrame(from: "host" | "plugin", frame: JsonObject): void {
    if (from === "host") this.#learnSecrets(frame);
    const text = JSON.stringify(this.#redactor?.json(frame) ?? frame);
    this.#show(from, "frame", text, this.#trackCall(frame));
  }

  /**
   * Returns the call of a frame and remembers it, because a frame without an id belongs to the last call. The ids of
   * repeated attempts end with their number.
   */
  #trackCall(frame: JsonObject): string | undefined {
    const named = frame.id ?? frame.request_id;
    const id = typeof named === "string" ? named.split(".")[0]! : "";
    if (isId("invocation", id)) this.#last_call = id;
    return this.#last_call;
  }

  /** Output that is not a frame. It ends the connection, so nothing follows. */
  #showStrayOutput(error: BackplaneError): void {
    const stray = error.details?.stray_output;
    const text = typeof stray === "string" && stray !== "" ? stray : error.message;
    this.#show("plugin", "stray_output", this.#redactor?.excerpt(text) ?? text);
  }

  #show(
    from: "host" | "plugin",
    kind: ObservedOutput["kind"],
    text: string,
    call_id = this.#last_call,
  ): void {
    const shown = text.length > MAX_CHARS ? `${text.slice(0, MAX_CHARS)}…` : text;
    const call = call_id === undefined ? {} : { call_id };
    this.#emit({ at: new Date().toISOString(), from, kind, text: shown, ...call });
  }

  /** Reads the secrets in the context of a call when the call is sent, before the plugin can repeat them. */
  #learnSecrets(frame: JsonObject): void {
    const body = isObject(frame.body) ? frame.body : frame;
    if (!isObject(body.context)) return;
    const { secrets, gateway } = body.context;
    const values = [
      ...(isObject(secrets) ? Object.values(secrets) : []),
      isObject(gateway) ? gateway.delegation_token : undefined,
    ];
    const known_count = this.#secrets.size;
    for (const value of values) if (typeof value === "string") this.#secrets.add(value);
    if (this.#secrets.size > known_count) this.#redactor = createRedactor([...this.#secrets]);
  }
}
