/**
 * Reports the tools of a new self-describing binding: which are not offered, which need approval, and the commands that
 * change either. If the tools could not be listed, reports the error.
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
  const all_tools = await ifAllowed(client.catalog.list({ all: true }));
  const own_tools = (all_tools ?? []).filter((entry) => entry.binding_id === binding_id);
  for (const { name, status, reason, fix } of own_tools) {
    if (reason === null || (!reportBroken && broken.has(name))) continue;
    out.note(plainLine(status === "offered" ? `${name}: ${reason}` : `${name} is not offered: ${reason}`));
    if (fix !== null) out.note(plainLine(`fix: ${fix}`));
  }
  const server =
    package_id === undefined || config === undefined ? null : boundServerName({ package_id, config });
  await noteApprovals(context, own_tools, all_tools ?? [], server);
}

/** Reports the error if the tools could not be listed, otherwise nothing. */
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
 * Tells the operator after an installation which tools will need approval. For tools of unknown risk, shows the policy
 * command that removes the need; a tool whose server declares that it writes still needs approval.
 */
async function noteApprovals(
  context: CommandContext,
  own_tools: readonly CatalogEntry[],
  all_tools: readonly CatalogEntry[],
  server: string | null,
): Promise<void> {
  const { out } = context;
  const policy = await ifAllowed(context.client().policy.get());
  if (policy === null) return;
  const { conversation } = policy.effective.tolerance;
  const need_approval = own_tools.filter(
    ({ status, reason, requires_approval, risk }) =>
      status === "offered" && reason === null && (requires_approval || !tolerates(conversation, risk)),
  );
  if (need_approval.length === 0) return;
  const all_need_approval = need_approval.length === own_tools.length;
  const subject = all_need_approval
    ? "All of them need"
    : `${need_approval.map(({ name }) => name).join(", ")} will need`;
  out.note(
    plainLine(
      `${subject} approval when a model calls them. Why: backplane policy explain ${need_approval[0]!.name}`,
    ),
  );
  const unrated = need_approval.filter(
    ({ risk, requires_approval }) => risk === "unknown" && !requires_approval,
  );
  if (unrated.length === 0) return;
  out.note(
    plainLine(
      `If you trust them: backplane policy set 'risks.${choosePattern(unrated, own_tools, all_tools, server)}' low`,
    ),
  );
}

/** A pattern for all tools of a server and no others, or the name of a single tool. */
function choosePattern(
  tools: readonly CatalogEntry[],
  own_tools: readonly CatalogEntry[],
  all_tools: readonly CatalogEntry[],
  server: string | null,
): string {
  const first = tools[0]!.name;
  const server_prefix = `mcp_${server}_`;
  // All names may share a longer prefix, but a later tool need not have it.
  const prefix = own_tools.every(({ name }) => name.startsWith(server_prefix))
    ? server_prefix
    : commonPrefix(own_tools.map(({ name }) => name));
  if (tools.length === 1 || !/^mcp_.+_$/.test(prefix)) return first;
  const matched = all_tools.filter(({ name }) => name.startsWith(prefix));
  return matched.every((entry) => own_tools.includes(entry)) ? `${prefix}*` : first;
}

/** Returns the common prefix of the names, up to its last `_`. */
function commonPrefix(names: readonly string[]): string {
  const [first = "", ...others] = names;
  let end = first.length;
  for (const name of others) while (!name.startsWith(first.slice(0, end))) end--;
  return first.slice(0, first.lastIndexOf("_", end - 1) + 1);
}

/** Null if the package has no tools, or if the key lacks the scope for the request: some keys may only install. */
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
