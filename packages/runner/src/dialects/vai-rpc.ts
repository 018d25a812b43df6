/** `vai.rpc.v1`: Content-Length frames, a long-lived process, many requests in flight. */
import type { BackplaneError, JsonObject, VaiResponse } from "@backplane/contract";
import { VaiHost, type VaiReplySink } from "@backplane/wire";
import { acceptVai } from "../accept-result.ts";
import type { Dialect, Exchange, Link, Session } from "./dialect.ts";

export const vaiRpc: Dialect = {
  protocol: "vai.rpc.v1",
  lifetime: "pooled",
  refuses: () => null,
  connect: (link) => new VaiSession(link),
};

export class VaiSession implements Session {
  protected readonly host: VaiHost;

  constructor(link: Link) {
    this.host = new VaiHost({
      transport: link.transport,
      identity: link.package,
      host: link.host,
      hello_ms: link.timeouts.hello_ms,
      after: (ms, run) => link.after(ms, run),
      limits: link.limits,
      max_queued_bytes: link.limits.queued_bytes,
      onViolation: (violation) => link.violation(violation.kind, violation.request_id),
      onFailure: (error) => link.failure(error),
    });
  }

  async open(): Promise<void> {
    await this.host.hello();
  }

  call(exchange: Exchange): void {
    const { order } = exchange;
    const body = { ...exchange.body, export_id: order.export_id, context: exchange.context };
    if (this.host.send(exchange.id, order.op, body, new Reply(exchange))) exchange.sent();
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

  verdict(): null {
    return null;
  }
}

class Reply implements VaiReplySink {
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  event(event: JsonObject & { type: string }): void {
    this.#exchange.event(event);
  }

  answered(response: VaiResponse): void {
    this.#exchange.answered(acceptVai(response));
  }

  broke(error: BackplaneError): void {
    this.#exchange.broke(error);
  }
}
