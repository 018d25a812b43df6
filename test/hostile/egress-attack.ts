/** One attempt to reach a destination that was not granted. An attempt ends when the proxy closes its connection. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import type { TestEgressOptions } from "../../packages/runner/test/support/egress.ts";
import type { Attacker } from "./egress-upstream.ts";

export interface Attack {
  name: string;
  /** The refusal that the record must contain, with its host if one is known. */
  reason: RefusalReason;
  host?: string;
  options?: TestEgressOptions;
  run: (attacker: Attacker) => Promise<unknown>;
}

/** A host that is granted to every attacker. */
export const GRANTED_HOST = "api.acme.test";

/** An attack that sends one payload to the proxy. */
export const requestAttack = (
  name: string,
  payload: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name,
  reason,
  ...(host === undefined ? {} : { host }),
  run: ({ send, port }) => send(payload(port)).readToEnd(),
});
