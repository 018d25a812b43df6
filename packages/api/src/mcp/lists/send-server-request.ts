import type { Json, JsonObject } from "@backplane/contract";
import type { Caller, Kernel } from "@backplane/ports";

/** Sends the gateway's own request to a bound server: notifications are dropped, questions declined or rejected. */
export function sendServerRequest(
  kernel: Pick<Kernel, "servers">,
  caller: Caller,
  binding_id: string,
  method: string,
  params: JsonObject,
): Promise<Json> {
  return kernel.servers.request(caller, binding_id, method, params, {
    notify: () => undefined,
    answerRequest: () => null,
  });
}
