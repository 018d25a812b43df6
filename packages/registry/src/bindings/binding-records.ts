/** Builds the event and the audit entry for a change to a binding. */
import type { Binding, JsonObject } from "@backplane/contract";
import { buildAudit, type Caller, type ChangeRecords, type KernelDeps } from "@backplane/ports";

export type BuildRecords = (
  caller: Caller,
  row: Binding,
  action: string,
  further_details?: JsonObject,
) => ChangeRecords;

export function createBindingRecords(deps: Pick<KernelDeps, "ids" | "clock">): BuildRecords {
  return (caller, row, action, further_details = {}) => {
    const summary = {
      package_id: row.package_id,
      package_version: row.package_version,
      export_id: row.export_id,
      status: row.status,
      generation: row.generation,
    };
    const class_details: JsonObject =
      row.class_lowered_by === null || row.policy.class === undefined
        ? {}
        : { class: row.policy.class, class_lowered_by: row.class_lowered_by };
    // A change to an org-wide binding is reported in the project from which it was made.
    const scope = row.scope.project_id === null ? caller.scope : row.scope;
    const { previous } = row;
    // Only the change that moved the binding reports the move.
    const move_details: JsonObject =
      previous === undefined || previous.generation !== row.generation - 1
        ? {}
        : {
            from_version: previous.package_version,
            trust_dropped: previous.trust_dropped,
            permissions_held: previous.permissions_held,
          };
    const details = { ...summary, ...class_details, ...move_details, ...further_details };
    return {
      events: [
        {
          id: deps.ids.next("event"),
          type: "binding.changed",
          scope,
          occurred_at: deps.clock.now(),
          subject: { kind: "binding", id: row.binding_id },
          summary: { ...summary, action },
        },
      ],
      audit: buildAudit(deps, caller, action, row.binding_id, details, scope),
    };
  };
}
