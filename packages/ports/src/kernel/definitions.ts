/** The tool definitions of bindings whose package is described by its running process. */
import type { Definitions } from "@backplane/contract";
import type { Operation } from "../host/operation.ts";
import type { Caller } from "../scope/scope.ts";

export interface DefinitionsFacade {
  /** Resolves to null if the process has not described its tools yet. Throws binding.not_found. */
  get(caller: Caller, binding_id: string): Promise<Definitions | null>;
  /** Asks the process for its tools now. */
  refresh(caller: Caller, binding_id: string, operation?: Operation): Promise<Definitions>;
  /** Accepts one hidden tool, or `*` for all. `revision` is the revision that the operator reviewed. */
  accept(caller: Caller, binding_id: string, export_id: string, revision?: number): Promise<Definitions>;
}
