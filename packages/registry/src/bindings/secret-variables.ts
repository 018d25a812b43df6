/**
 * The environment variables in which an MCP server on stdio receives its secrets, because it has no other channel.
 * A secret that a change binds gets a variable that is named after its slot, unless the operator chooses another one or
 * the configuration already says where the secret is used. A secret that was bound before gets none: a change of another
 * setting must not give the server more.
 */
import { type Binding, definedFields, placeholderSlots } from "@backplane/contract";
import { BindingPolicySchema } from "@backplane/contract/schema";
import { listSlots } from "../grant/server-slots.ts";
import { type CheckedExport, invalidBinding } from "./check-binding.ts";

/** `named_slots` are slots that the change binds explicitly, even if they already have a secret. */
export function assignSecretVariables(
  checked: CheckedExport,
  draft: Pick<Binding, "config" | "secrets" | "policy">,
  before: Pick<Binding, "secrets" | "policy">,
  named_slots: readonly string[],
): Binding["policy"] {
  if (checked.package.manifest.runtime.protocol !== "mcp.stdio") return draft.policy;
  const { secret_env: requested, ...policy } = draft.policy;
  const slots = listSlots(checked, draft);
  // The variable of a slot that only the binding defines is removed together with its secret.
  const isRemoved = (slot: string, variable: string) =>
    !slots.includes(slot) && before.policy.secret_env?.[slot] === variable;
  const kept = Object.entries(requested ?? {}).filter((entry) => !isRemoved(...entry));
  const assigned = new Set([
    ...kept.map(([slot]) => slot),
    ...placeholderSlots([draft.config.args ?? null, draft.config.env ?? null]),
  ]);
  const added = Object.keys(draft.secrets)
    .filter((slot) => before.secrets[slot] === undefined || named_slots.includes(slot))
    .filter((slot) => !assigned.has(slot))
    .map((slot) => [slot, toVariable(slot)] as const);
  const secret_env =
    requested === undefined && added.length === 0 ? undefined : Object.fromEntries([...kept, ...added]);
  return { ...policy, ...definedFields({ secret_env }) };
}

function toVariable(slot: string): string {
  const variable = slot.toUpperCase();
  const { error } = BindingPolicySchema.safeParse({ secret_env: { [slot]: variable } });
  if (error === undefined) return variable;
  const message = `${variable} ${error.issues[0]!.message}; map the slot to another variable in policy.secret_env`;
  throw invalidBinding([{ path: `/secrets/${slot}`, message }]);
}
