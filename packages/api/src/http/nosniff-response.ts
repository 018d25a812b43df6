/**
 * The response class of the HTTP server. X-Content-Type-Options is set here and not in a Fastify hook, because Node
 * responds to some requests itself (417) and event streams bypass Fastify when they write their headers.
 */
import { type IncomingMessage, ServerResponse } from "node:http";

export class NosniffResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  constructor(...args: ConstructorParameters<typeof ServerResponse<Request>>) {
    super(...args);
    this.setHeader("x-content-type-options", "nosniff");
  }
}
