/**
 * Lists the tools of a new self-describing binding: which are not offered, which need approval, or why there are none.
 * Each line names the command that changes it.
 */
import {
  type Binding,
  boundServerName,
  type CatalogEntry,
  codeOf,
  type Definitions,
  tolerates,
  type WorkspaceFolder,
} from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { serverHints } from "./server-hints.ts";

/** A folder of workspace tools is not a server and has no configuration. */
type ReportedBinding = Pick<Binding, "binding_id" | "unbound_slots"> &
  Partial<Pick<Binding, "package_id" | "config">>;

export async function reportTools(
  context: CommandContext,
  { binding_id, unbound_slots, package_id, config }: ReportedBinding,
  /** `reportBroken: false` if load errors were already reported. */
  { reportBroken = true } = {},
): Promise<void> {
  const { out } = context;
  if (unbound_slots.length > 0 || out.quiet) return;
  const client = context.client();
  const definitions = await ifAllowed(client.bindings.definitions(binding_id));
  if (definitions === null) return;
  if (definitions.error !== null) {
    for (const warning of definitions.warnings) out.note(plainLine(warning));
    noteUnavailable(context, binding_id, definitions.error);
    return;
  }
  const broken = new Set(
    definitions.exports.filter(({ tool }) => tool.load_error !== undefined).map(({ id }) => id),
  );
  const ids = definitions.exports.map(({ id }) => id).filter((id) => !broken.has(id));
  out.note(plainLine(`Tools: ${ids.join(", ") || "none"}`));
  for (const warning of definitions.warnings) out.note(plainLine(warning));
  const listed = await ifAllowed(client.catalog.list({ all: true }));
  const own = (listed ?? []).filter((entry) => entry.binding_id === binding_id);
  for (const { name, status, reason, fix } of own) {
    if (reason === null || (!reportBroken && broken.has(name))) continue;
    out.note(plainLine(status === "offered" ? `${name}: ${reason}` : `${name} is not offered: ${reason}`));
    if (fix !== null) out.note(plainLine(`fix: ${fix}`));
  }
  const server =
    package_id === undefined || config === undefined ? null : boundServerName({ package_id, config });
  await noteApprovals(context, own, listed ?? [], server);
}

/** Reports only that the plugin does not respond. */
export async function reportUnavailable(context: CommandContext, { binding_id }: Binding): Promise<void> {
  if (context.out.quiet) return;
  const definitions = await ifAllowed(context.client().bindings.definitions(binding_id));
  if (definitions !== null && definitions.error !== null)
    noteUnavailable(context, binding_id, definitions.error);
}

function noteUnavailable(
  { out }: CommandContext,
  binding_id: string,
  error: NonNullable<Definitions["error"]>,
): void {
  out.note(plainLine(`No tools are available yet (${error.code}): ${error.message}`));
  // The message contains the commands for this binding.
  if (error.code === "plugin.untrusted") return;
  if (error.fix !== undefined) out.note(plainLine(`fix: ${error.fix}`));
  for (const hint of serverHints(error.message, binding_id)) out.note(plainLine(hint));
  out.note(
    `The gateway retries automatically. To retry now: backplane binding tools ${binding_id} --refresh`,
  );
}

/**
 * Informs the operator after an installation that calls will need approval. For tools of unknown risk one policy command
 * changes that; a tool whose server declares that it writes still needs approval.
 */
async function noteApprovals(
  context: CommandContext,
  own: readonly CatalogEntry[],
  listed: readonly CatalogEntry[],
  server: string | null,
): Promise<void> {
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
  const subject = all ? "All of them need" : `${asking.map(({ name }) => name).join(", ")} will need`;
  out.note(
    plainLine(
      `${subject} approval when a model calls them. Why: backplane policy explain ${asking[0]!.name}`,
    ),
  );
  const unrated = asking.filter(({ risk, requires_approval }) => risk === "unknown" && !requires_approval);
  if (unrated.length === 0) return;
  out.note(
    plainLine(
      `If you trust them: backplane policy set 'risks.${choosePattern(unrated, own, listed, server)}' low`,
    ),
  );
}

/** A pattern for all tools of a server and no others, or the name of a single tool. */
function choosePattern(
  some: readonly CatalogEntry[],
  own: readonly CatalogEntry[],
  listed: readonly CatalogEntry[],
  server: string | null,
): string {
  const first = some[0]!.name;
  const named = `mcp_${server}_`;
  // The names of all tools may begin with one more word, which a later tool need not have.
  const prefix = own.every(({ name }) => name.startsWith(named))
    ? named
    : commonPrefix(own.map(({ name }) => name));
  if (some.length === 1 || !/^mcp_.+_$/.test(prefix)) return first;
  const matched = listed.filter(({ name }) => name.startsWith(prefix));
  return matched.every((entry) => own.includes(entry)) ? `${prefix}*` : first;
}

/** The start that all names have in common, up to its last `_`. */
function commonPrefix(names: readonly string[]): string {
  const [first = "", ...others] = names;
  let end = first.length;
  for (const name of others) while (!name.startsWith(first.slice(0, end))) end--;
  return first.slice(0, first.lastIndexOf("_", end - 1) + 1);
}

/** Null if the key lacks the scope for the request, since a key may be allowed only to install. */
export async function ifAllowed<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    const code = codeOf(error);
    // A package of skills has no tools, so a request for them fails with one of the last two codes.
    if (code === "auth.scope" || code === "export.not_found" || code === "request.invalid") return null;
    throw error;
  }
}

export function reportLoadErrors({ out }: CommandContext, { errors }: Pick<WorkspaceFolder, "errors">): void {
  for (const reason of Object.values(errors)) out.note(plainLine(`Failed to load: ${reason}`));
}
