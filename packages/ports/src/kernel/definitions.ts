/** What the tools of a described binding are. */
import type { Definitions } from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

export interface DefinitionsFacade {
  /** Null: it was never asked. Throws binding.not_found. */
  get(caller: Caller, binding_id: string): Promise<Definitions | null>;
  /** Asks again now. */
  refresh(caller: Caller, binding_id: string): Promise<Definitions>;
  /** Offers what was kept back: one tool, or `*` for all of them. `revision`: the one that was looked at. */
  accept(caller: Caller, binding_id: string, export_id: string, revision?: number): Promise<Definitions>;
}
