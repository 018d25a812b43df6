/**
 * Limits the growth of the old generation once the gateway is ready. V8 rejects compiled code from a process with other
 * flags, so setting these flags at the start would make Node compile all of its own modules again, in every thread.
 */
import { flushCompileCache } from "node:module";
import { setFlagsFromString } from "node:v8";
import { OWN_SEMI_SPACE, type OwnProcess } from "./small-heap.ts";

/** How much the old generation may grow before a collection; V8's default is up to four times the live size. */
const HEAP_GROWTH = "--heap-growing-percent=25";
/**
 * V8 allocates objects directly in the old generation if earlier ones from the same site survived, as call records do
 * while the gateway warms up. Each of them then keeps all data of its call alive until the next full collection. This
 * caused four times as many full collections in measurements.
 */
const NO_PRETENURING = "--no-allocation-site-pretenuring";

/** Does nothing in a process without our heap flags, such as one whose flags the operator has chosen. */
export function limitHeapGrowth({ execArgv }: Pick<OwnProcess, "execArgv">): void {
  if (!execArgv.includes(OWN_SEMI_SPACE)) return;
  // Compiled code that is written later is marked with the new flags, and the next start would reject it.
  flushCompileCache();
  for (const flag of [HEAP_GROWTH, NO_PRETENURING]) setFlagsFromString(flag);
}
