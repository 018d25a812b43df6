/** How a call gets the gateway's own model for the sampling requests of its plugin. */

import type { CallContext, Json, JsonObject } from "@backplane/contract";
import type { BoundPackage, Caller } from "@backplane/ports";
import type { LiveCall } from "./live.ts";

export type LendModel = (
  live: LiveCall,
  borrower: Borrower,
) => ((params: JsonObject) => Promise<Json>) | null;

/** Who called the tool during which the server asks. */
export interface Borrower {
  caller: Caller;
  context: CallContext;
  bound: BoundPackage;
}
