/** `workspace`: folders on the gateway's machine whose tool files are offered after the operator has reviewed them. */
import { BackplaneError, codeOf, type WorkspaceReview } from "@backplane/contract";
import type { Command } from "commander";
import { reportLoadErrors, reportTools } from "../bindings/report-tools.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { resolveGatewayPath } from "../context/gateway-path.ts";
import { showRows } from "../context/page.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../terminal/prompts.ts";

const EXAMPLES = `
Examples:
  backplane workspace show .          review new and changed files
  backplane workspace trust .         trust these files as they are now
  backplane workspace trust . --watch also trust later edits and load them on save
`;

export function addWorkspaceCommands(program: Command, toAction: ToAction): void {
  const workspace = program
    .command("workspace")
    .description("Folders on the gateway's machine whose tools/*.ts are offered as tools.")
    .addHelpText("after", EXAMPLES);
  workspace
    .command("trust <dir>")
    .description("Trust a folder and load its tools; lists new and changed files first.")
    .option("--watch", "also trust later edits and load them on save")
    .addHelpText("after", EXAMPLES)
    .action(toAction(trust));
  workspace
    .command("list")
    .description("List trusted folders and their changed files.")
    .action(toAction(list));
  workspace
    .command("show <dir>")
    .description("Show the new and changed files of a folder.")
    .action(toAction(show));
  workspace
    .command("untrust <dir>")
    .description("Remove the tools of a folder; its files are kept.")
    .action(toAction(untrust));
}

async function trust(context: CommandContext, options: { watch?: boolean }, dir: string): Promise<undefined> {
  const { io, flags, out } = context;
  const client = context.client();
  const path = resolveGatewayPath(context, dir, dir);
  const review = await reviewFolder(context, path);
  // Checked after the review, so that an invalid folder is reported even if no prompt is possible.
  assertConfirmable(io, flags);
  const { changes, digest } = review;
  const summary = changes.length === 0 ? "no changes since it was trusted" : "to be trusted:";
  out.note(plainLine(`${review.path}: ${summary}`));
  for (const { change, path: file, size } of changes)
    out.note(`  ${plainLine(`${change.padEnd(8)} ${file} (${size} bytes)`)}`);
  const later_edits = options.watch === true ? " and every later edit of them" : "";
  await confirm(io, flags, `Trust these files${later_edits}, and offer them as tools?`);
  const folder = await client.workspaces.trust({ path, watch: options.watch === true, digest });
  out.data(folder, () => `Trusted ${folder.path} as ${folder.package_id}@${folder.package_version}`);
  reportLoadErrors(context, folder);
  await reportTools(context, { ...folder, unbound_slots: [] }, { reportBroken: false });
  return undefined;
}

async function list(context: CommandContext): Promise<undefined> {
  const items = await context.client().workspaces.list();
  const heads = ["PATH", "KIND", "STATE", "WATCH", "CHANGES", "ERRORS", "LOADED"];
  const rows = items.map((each) => [
    each.path,
    each.kind,
    each.state,
    each.watch ? "yes" : "no",
    each.changes.map(({ path }) => path).join(",") || "-",
    Object.keys(each.errors).join(",") || "-",
    each.loaded_at,
  ]);
  showRows(context, { items }, heads, rows);
  for (const each of items) reportLoadErrors(context, each);
  return undefined;
}

async function show(context: CommandContext, _options: object, dir: string): Promise<undefined> {
  const { out } = context;
  const review = await reviewFolder(context, resolveGatewayPath(context, dir, dir));
  out.data(review, () => reviewText(review));
  if (review.trusted !== null) reportLoadErrors(context, review.trusted);
  if (review.changes.length > 0) out.note(`Trust them: backplane workspace trust ${dir}`);
  return undefined;
}

/** The gateway's error does not contain the path, so it is added here. */
async function reviewFolder(context: CommandContext, path: string): Promise<WorkspaceReview> {
  try {
    return await context.client().workspaces.review(path);
  } catch (error) {
    if (codeOf(error) !== "workspace.not_found") throw error;
    const message = `${path} does not exist on the gateway's machine, or contains no tool files.`;
    throw new BackplaneError("workspace.not_found", message, { cause: error });
  }
}

function reviewText({ path, files, changes, trusted }: WorkspaceReview): string {
  const state =
    trusted === null ? "not trusted" : changes.length === 0 ? "trusted" : "trusted, changed since then";
  const lines = [plainLine(`${path}: ${files.length} ${files.length === 1 ? "file" : "files"}, ${state}`)];
  for (const { change, path: file, text } of changes) {
    lines.push("", plainLine(`--- ${change}: ${file}`));
    if (change !== "removed") lines.push(text === null ? "(not text, or too long to show)" : plainText(text));
  }
  return lines.join("\n");
}

async function untrust(context: CommandContext, _options: object, dir: string): Promise<undefined> {
  const { io, flags, out } = context;
  const client = context.client();
  const folders = await client.workspaces.list();
  const with_id = folders.filter(({ id }) => id === dir);
  const path = with_id[0]?.path ?? resolveGatewayPath(context, dir, dir);
  const matches = with_id.length > 0 ? with_id : folders.filter((each) => each.path === path);
  if (matches.length === 0) {
    throw new BackplaneError("workspace.not_found", `${path} is not trusted.`, {
      fix: "backplane workspace list",
    });
  }
  await confirm(io, flags, `Remove the tools of ${path}?`);
  for (const { id } of matches) await client.workspaces.untrust(id);
  out.data({ untrusted: path }, () => `${path} is no longer trusted`);
  return undefined;
}
