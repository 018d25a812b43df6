import type { JsonObject } from "@backplane/contract";
import type { InvocationRow, KernelDeps, NewEvent } from "@backplane/ports";

/** The fact that a call has ended. What a hook's call causes triggers no further hooks (from_hook). */
export function settledEvent(
  deps: Pick<KernelDeps, "ids">,
  row: Pick<
    InvocationRow,
    | "id"
    | "org_id"
    | "project_id"
    | "session_id"
    | "export_kind"
    | "export_id"
    | "binding_id"
    | "package_id"
    | "package_version"
    | "status"
    | "error"
    | "delivery_id"
  >,
  now: number,
): NewEvent {
  const summary: JsonObject = {
    status: row.status,
    export_kind: row.export_kind,
    export_id: row.export_id,
    binding_id: row.binding_id,
    package_id: row.package_id,
    package_version: row.package_version,
  };
  if (row.session_id !== null) summary.session_id = row.session_id;
  if (row.error !== null) summary.error_code = row.error.code;
  const event: NewEvent = {
    id: deps.ids.next("event"),
    type: "invocation.settled",
    scope: { org_id: row.org_id, project_id: row.project_id },
    occurred_at: now,
    subject: { kind: "invocation", id: row.id },
    summary,
  };
  if (row.delivery_id !== null) event.from_hook = true;
  return event;
}
