/** One way to reach what an invocation was not granted. It ends when the proxy has let go of it. */
import type { RefusalReason } from "../../packages/runner/src/egress/destinations/refusals.ts";
import type { TestEgressOptions } from "../../packages/runner/test/support/egress.ts";
import type { Attacker } from "./egress-world.ts";

export interface Attack {
  name: string;
  /** What the record must say, and of whom. */
  reason: RefusalReason;
  host?: string;
  world?: TestEgressOptions;
  run: (attacker: Attacker) => Promise<unknown>;
}

/** A host that every attacker was granted. */
export const OK = "api.acme.test";

/** In plain words to the proxy. */
export const saying = (
  name: string,
  words: (port: number) => string,
  reason: RefusalReason,
  host?: string,
): Attack => ({
  name,
  reason,
  ...(host === undefined ? {} : { host }),
  run: ({ send, port }) => send(words(port)).readToEnd(),
});
