/** Requests from a plugin to its caller while the call runs: MCP elicitation and sampling. */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";

/** Returns null if the client does not support the method. `key` is the plugin's own id for the request. */
export type AnswerPluginRequest = (method: string, params: JsonObject, key?: string) => Promise<Json> | null;

/**
 * The gateway's own answer if the client does not support the method or has disconnected: declines an elicitation and
 * rejects any other request.
 */
export async function answerByDefault(method: string): Promise<Json> {
  switch (method) {
    case "elicitation/create":
      return { action: "decline" };
    case "sampling/createMessage":
      throw new BackplaneError("policy.denied", "The calling client does not offer sampling to plugins.", {
        fix: "To let the server use the gateway's model, run `backplane binding set BINDING --sampling 1000`.",
      });
    default:
      throw new BackplaneError("request.invalid", `${method} is not supported by the calling client.`);
  }
}
