/** How a caller answers what a plugin asks of it while its call runs. */
import { BackplaneError, type Json, type JsonObject } from "@backplane/contract";

/** Null: this client takes no such question. The key is the plugin's own name of it. */
export type Ask = (method: string, params: JsonObject, key?: string) => Promise<Json> | null;

/** The gateway's own answer, where no client takes the question. */
export async function unheard(method: string): Promise<Json> {
  switch (method) {
    case "elicitation/create":
      return { action: "decline" };
    case "sampling/createMessage":
      throw new BackplaneError("policy.denied", "the client that called offers no model to plugins", {
        fix: "To let a server have the gateway's own: backplane binding set BINDING --sampling 1000",
      });
    default:
      throw new BackplaneError("request.invalid", `nobody here answers ${method}`);
  }
}
