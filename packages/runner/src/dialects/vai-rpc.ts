/** `vai.rpc.v1`: Content-Length frames, a long-lived process, many requests in flight. */
import {
  type BackplaneError,
  isObject,
  type Json,
  type JsonObject,
  type VaiResponse,
} from "@backplane/contract";
import { VaiHost, type VaiReplySink } from "@backplane/wire";
import { clipMessage, type PluginAnswer } from "../ports/answer.ts";
import type { Dialect, DialectCall, DialectSession, ProcessLink } from "../ports/dialect.ts";

export const vaiRpc: Dialect = {
  protocol: "vai.rpc.v1",
  lifetime: "pooled",
  unsupportedReason: () => null,
  connect: (link) => new VaiSession(link),
};

export class VaiSession implements DialectSession {
  protected readonly host: VaiHost;

  constructor(link: ProcessLink) {
    this.host = new VaiHost({
      transport: link.transport,
      identity: link.package,
      host: link.host,
      hello_ms: link.timeouts.hello_ms,
      after: (ms, run) => link.after(ms, run),
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      onViolation: (violation) => link.reportViolation(violation.kind, violation.request_id),
      onFailure: (error) => link.reportFailure(error),
    });
  }

  async open(): Promise<void> {
    await this.host.hello();
  }

  call(exchange: DialectCall): void {
    const { request } = exchange;
    const body = { ...exchange.body, export_id: request.export_id, context: exchange.context };
    if (this.host.send(exchange.id, request.op, body, new Reply(exchange))) exchange.sent();
  }

  cancel(id: string, reason: string): boolean {
    this.host.cancel(id, reason);
    return true;
  }

  abandon(id: string, error: BackplaneError): void {
    this.host.abandon(id, error);
  }

  shutdown(): void {
    this.host.shutdown();
  }

  trailingOutputError(): null {
    return null;
  }
}

/** One object per call, which is cheaper than three closures (benchmark runner.warm-call). */
class Reply implements VaiReplySink {
  readonly #exchange: DialectCall;

  constructor(exchange: DialectCall) {
    this.#exchange = exchange;
  }

  event(event: JsonObject & { type: string }): void {
    this.#exchange.event(event);
  }

  answered(response: VaiResponse): void {
    this.#exchange.answered(acceptVai(response));
  }

  failed(error: BackplaneError): void {
    this.#exchange.failed(error);
  }
}

/** Translates a checked response frame into an answer. */
export function acceptVai(response: VaiResponse): PluginAnswer {
  if (!response.ok) {
    const [code, message] = [clipMessage(response.error.code), clipMessage(response.error.message)];
    return {
      status: "failed",
      result: null,
      error: {
        code: "plugin_protocol_error",
        message: `The plugin answered ok:false: ${message}`,
        details: { plugin_code: code, plugin_message: message },
      },
    };
  }
  const { status } = response.body;
  const result = response.body.result ?? null;
  switch (status) {
    case "succeeded":
    case "ack":
      return { status: "succeeded", result, error: null };
    case "failed":
      return { status, result, error: { code: "plugin_failed", ...readError(result, "The plugin failed.") } };
    case "retryable_failure": {
      const error = readError(result, "The plugin asks to be called again later.");
      return { status, result, error: { code: "plugin_retryable", ...error } };
    }
    case "cancelled":
      return {
        status,
        result,
        error: { code: "cancelled", message: "The plugin ended the call as cancelled." },
      };
  }
}

/** Reads the error message: the result itself if it is text, else result.error, result.message or result.content. */
function readError(result: Json, fallback: string): { message: string; details?: JsonObject } {
  if (typeof result === "string" && result !== "") return { message: clipMessage(result) };
  if (!isObject(result)) return { message: fallback };
  const { error, message, content } = result;
  if (typeof error === "string" && error !== "") return { message: clipMessage(error) };
  if (isObject(error) && typeof error.message === "string" && error.message !== "") {
    const details: JsonObject =
      typeof error.code === "string" ? { plugin_code: clipMessage(error.code) } : {};
    return { message: clipMessage(error.message), details };
  }
  if (typeof message === "string" && message !== "") return { message: clipMessage(message) };
  if (Array.isArray(content)) {
    const texts = content.flatMap((block) =>
      isObject(block) && typeof block.text === "string" ? [block.text] : [],
    );
    if (texts.length > 0) return { message: clipMessage(texts.join("\n")) };
  }
  return { message: fallback };
}
