/** Entries of a tape and approvals, as the gateway returns them. */
import type { Approval, Entry } from "@backplane/contract";

export const date = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, "0")}.000Z`;
export const entry = (id: number, kind: Entry["kind"], payload: Entry["payload"], second = id): Entry => ({
  id,
  kind,
  payload,
  meta: {},
  date: date(second),
});
export const toolCall = (id: number, name: string, args: object, second = id) =>
  entry(id, "tool_call", { id: `c${id}`, name, args } as never, second);
export const approval = (id: string, tool: string, input: object, second: number, more: object = {}) =>
  ({
    id,
    tool,
    input,
    requested_at: date(second),
    replaces: null,
    digest: `${tool} ${JSON.stringify(input)}`,
    invocation_id: `inv_${id}`,
    status: "pending",
    ...more,
  }) as unknown as Approval;
