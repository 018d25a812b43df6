/**
 * What a binding that describes itself turned out to offer, right after it was made: its tools, which of them cannot run
 * or lost their name, which will ask before each call, or why there are none. Each with the command that changes it.
 */
import {
  type Binding,
  type CatalogEntry,
  codeOf,
  type Definitions,
  tolerates,
  type WorkspaceFolder,
} from "@backplane/contract";
import type { Context } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";

export async function sayTools(
  context: Context,
  { binding_id, unbound_slots }: Pick<Binding, "binding_id" | "unbound_slots">,
  /** `broken: false` where what does not load was told already. */
  { broken = true } = {},
): Promise<void> {
  const { out } = context;
  if (unbound_slots.length > 0 || out.quiet) return;
  const client = context.client();
  const found = await ifAllowed(client.bindings.definitions(binding_id));
  if (found === null) return;
  if (found.error !== null) {
    sayUnanswered(context, binding_id, found.error);
    return;
  }
  const ids = found.exports.map(({ id }) => id);
  out.note(plainLine(`Tools: ${ids.join(", ") || "none"}`));
  for (const warning of found.warnings) out.note(plainLine(warning));
  const listed = await ifAllowed(client.catalog.list({ all: true }));
  const own = (listed ?? []).filter((entry) => entry.binding_id === binding_id);
  for (const { name, status, reason, fix } of own) {
    if (reason === null || (status === "offered" && !broken)) continue;
    out.note(plainLine(status === "offered" ? `${name}: ${reason}` : `${name} is not offered: ${reason}`));
    if (fix !== null) out.note(plainLine(`fix: ${fix}`));
  }
  await sayAsking(context, own);
}

/** Only what is wrong: it does not answer. */
export async function sayTrouble(context: Context, { binding_id }: Binding): Promise<void> {
  if (context.out.quiet) return;
  const found = await ifAllowed(context.client().bindings.definitions(binding_id));
  if (found !== null && found.error !== null) sayUnanswered(context, binding_id, found.error);
}

function sayUnanswered({ out }: Context, binding_id: string, error: NonNullable<Definitions["error"]>): void {
  out.note(plainLine(`It offers no tools yet (${error.code}): ${error.message}`));
  // Its message has the commands for this very binding.
  if (error.code === "plugin.untrusted") return;
  if (error.fix !== undefined) out.note(plainLine(`fix: ${error.fix}`));
  out.note(`It is asked again by itself; ask now: backplane binding tools ${binding_id} --refresh`);
}

/**
 * Somebody who has just installed a server should not learn by the first question that each call is one. Nobody said
 * anything about the risk of those marked unknown, so one word of the operator settles them; one whose server says that it
 * writes asks on.
 */
async function sayAsking(context: Context, own: readonly CatalogEntry[]): Promise<void> {
  const { out } = context;
  const policy = await ifAllowed(context.client().policy.get());
  if (policy === null) return;
  const { conversation } = policy.effective.tolerance;
  const asking = own.filter(
    ({ status, reason, requires_approval, risk }) =>
      status === "offered" && reason === null && (requires_approval || !tolerates(conversation, risk)),
  );
  if (asking.length === 0) return;
  const all = asking.length === own.length;
  const which = all ? "All of them ask" : `${asking.map(({ name }) => name).join(", ")} will ask`;
  out.note(
    plainLine(
      `${which} a person before a model's call runs. Why: backplane policy explain ${asking[0]!.name}`,
    ),
  );
  const unjudged = asking.filter(({ risk, requires_approval }) => risk === "unknown" && !requires_approval);
  if (unjudged.length === 0) return;
  out.note(
    plainLine(
      `If you trust them, in one command: backplane policy set 'risks.${patternOf(unjudged, own)}' low`,
    ),
  );
}

/** One pattern for what the tools of a server have in common, the name itself for a single one. */
function patternOf(some: readonly CatalogEntry[], own: readonly CatalogEntry[]): string {
  const [first] = some;
  if (some.length === 1 && own.length > 1) return first!.name;
  const prefix = `mcp_${first!.package_id.split("/").at(-1)}_`;
  return own.every(({ name }) => name.startsWith(prefix)) ? `${prefix}*` : first!.name;
}

/** A key that may install need not be one that may read everything else. */
export async function ifAllowed<T>(asking: Promise<T>): Promise<T | null> {
  try {
    return await asking;
  } catch (error) {
    const code = codeOf(error);
    // Packages of skills have no tools, and say so.
    if (code === "auth.scope" || code === "export.not_found" || code === "request.invalid") return null;
    throw error;
  }
}

export function sayErrors({ out }: Context, { errors }: Pick<WorkspaceFolder, "errors">): void {
  for (const why of Object.values(errors)) out.note(plainLine(`Does not load: ${why}`));
}
