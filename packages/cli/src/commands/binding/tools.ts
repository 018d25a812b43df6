/** `binding tools` and `binding accept`: the tool definitions of a server and their changes. */
import { codeOf, type Definitions, type Json, type QuarantinedTool } from "@backplane/contract";
import type { Command } from "commander";
import { findBinding } from "../../bindings/find-binding.ts";
import { serverHints } from "../../bindings/server-hints.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { table } from "../../terminal/output.ts";
import { plainLine, plainText } from "../../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";

const MAX_DESCRIPTION_CHARS = 100;

export function addBindingToolCommands(binding: Command, toAction: ToAction): void {
  binding
    .command("tools <binding>")
    .description("Show the tools of a server, and those whose definition changed.")
    .option("--refresh", "fetch the definitions again")
    .action(toAction(tools));
  binding
    .command("accept <binding> [tool]")
    .description("Accept the changed definition of a tool; without TOOL, of all tools.")
    .action(toAction(accept));
}

async function tools(
  context: CommandContext,
  options: { refresh?: boolean },
  name: string,
): Promise<undefined> {
  const { bindings } = context.client();
  const { binding_id: id } = await findBinding(context, name);
  show(context, options.refresh === true ? await bindings.describe(id) : await bindings.definitions(id));
  if (!context.out.json) await reportSignIn(context, id);
  return undefined;
}

/** Reports who signed in to a remote server. A missing sign-in is already reported as the error of the binding. */
async function reportSignIn(context: CommandContext, id: string): Promise<void> {
  try {
    const { status, issuer, signed_in_by, signed_in_at } = await context.client().bindings.signIn(id);
    if (status !== "signed_in") return;
    context.out.note(plainLine(`Signed in at ${issuer} since ${signed_in_at}, by ${signed_in_by}.`));
  } catch (error) {
    // Only remote servers have a sign-in.
    if (codeOf(error) !== "request.invalid") throw error;
  }
}

/** Shows the changed texts, which a model will read, before they are accepted. */
async function accept(
  context: CommandContext,
  _options: object,
  name: string,
  tool?: string,
): Promise<undefined> {
  const { io, flags, out } = context;
  assertConfirmable(io, flags);
  const { bindings } = context.client();
  const { binding_id: id } = await findBinding(context, name);
  const { quarantined, revision } = await bindings.definitions(id);
  const pending = quarantined.filter((change) => tool === undefined || change.export.id === tool);
  for (const change of pending) for (const line of differenceText(change)) out.note(line);
  await confirm(io, flags, `Accept the new definition of ${tool ?? "all changed tools"}?`);
  const accepted = pending.map(({ export: { id: export_id }, changes }) => ({ export_id, changes }));
  show(context, { ...(await bindings.accept(id, tool, revision)), accepted });
  return undefined;
}

function show({ out }: CommandContext, definitions: Definitions & { accepted?: object[] }): void {
  const { exports, quarantined, error, warnings, binding_id } = definitions;
  const rows = [
    ...exports.map(({ id, tool: { load_error }, description }) =>
      load_error === undefined ? [id, "offered", shorten(description)] : [id, "broken", shorten(load_error)],
    ),
    ...quarantined.map(({ export: item }) => [item.id, "changed", shorten(item.description)]),
  ];
  out.data(definitions, () => (rows.length === 0 ? "" : table(out, ["TOOL", "STATUS", "WHAT"], rows)));
  if (rows.length === 0 && error === null) out.note("The binding has no tools.");
  if (error !== null) {
    out.note(plainLine(`The tools could not be read (${error.code}): ${error.message}`));
    if (error.fix !== undefined) out.note(plainLine(`fix: ${error.fix}`));
    for (const hint of serverHints(error.message, binding_id)) out.note(plainLine(hint));
  }
  for (const warning of warnings) out.note(plainLine(warning));
  for (const change of quarantined) for (const line of differenceText(change)) out.note(line);
  if (quarantined.length > 0) out.note(`Review the changes, then: backplane binding accept ${binding_id}`);
}

function shorten(text: string | undefined): string {
  const line = plainLine(text ?? "");
  return line.length <= MAX_DESCRIPTION_CHARS ? line : `${line.slice(0, MAX_DESCRIPTION_CHARS - 1)}…`;
}

/** A changed definition: each part that differs, before and after. */
function differenceText({ export: item, since, former, changes }: QuarantinedTool): string[] {
  const head = plainLine(`${item.id}, changed ${since}`);
  return [
    former == null ? `${head}; the previous definition is unknown` : head,
    ...changes.flatMap(({ path, before, after, hidden }) => [
      `  ${plainLine(path.slice(1))}`,
      ...(before === undefined ? [] : markLines("-", before)),
      ...(after === undefined ? [] : markLines("+", after)),
      ...hidden.map((line) => `    ! ${plainLine(line)}`),
    ]),
  ];
}

function markLines(mark: string, value: Json): string[] {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return plainText(text)
    .split("\n")
    .map((line) => `    ${mark} ${line}`);
}
