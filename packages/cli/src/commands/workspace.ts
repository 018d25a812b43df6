/** `workspace`: folders of the gateway's machine whose tool files are tools, once the operator has looked at them. */
import { resolve } from "node:path";
import { BackplaneError, type WorkspaceReview } from "@backplane/contract";
import type { Command } from "commander";
import { sayErrors, sayTools } from "../bindings/report-tools.ts";
import type { Act } from "../context/action.ts";
import type { Context } from "../context/context.ts";
import { showRows } from "../context/page.ts";
import { plainLine, plainText } from "../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../terminal/prompts.ts";

const EXAMPLES = `
Examples:
  backplane workspace show .          what would be trusted, with the text of new and changed files
  backplane workspace trust .         these files, as they are now; a later edit waits
  backplane workspace trust . --watch later edits too: a save is loaded at once
`;

export function addWorkspaceCommands(program: Command, act: Act): void {
  const workspace = program
    .command("workspace")
    .description("Folders of the gateway's machine whose tools/*.ts are tools.")
    .addHelpText("after", EXAMPLES);
  workspace
    .command("trust <dir>")
    .description("Load the tools of a folder; what is new or changed is shown first.")
    .option("--watch", "trust later edits too, and load them when they are saved")
    .addHelpText("after", EXAMPLES)
    .action(act(trust));
  workspace.command("list").description("List trusted folders and what changed in them.").action(act(list));
  workspace
    .command("show <dir>")
    .description("Show the files of a folder: the text of those that are new or changed.")
    .action(act(show));
  workspace
    .command("untrust <dir>")
    .description("Take the tools of a folder away; its files stay.")
    .action(act(untrust));
}

async function trust(context: Context, options: { watch?: boolean }, dir: string): Promise<undefined> {
  const { io, flags, out } = context;
  const client = context.client();
  const path = resolve(io.cwd, dir);
  const review = await client.workspaces.review(path);
  // Only now: a folder that is none is told as such, whoever can be asked.
  assertConfirmable(io, flags);
  const { changes, digest } = review;
  const news = changes.length === 0 ? "nothing changed since it was trusted" : "to be trusted:";
  out.note(plainLine(`${review.path}: ${news}`));
  for (const { change, path: file, size } of changes)
    out.note(`  ${plainLine(`${change.padEnd(8)} ${file} (${size} bytes)`)}`);
  const later = options.watch === true ? " and every later edit of them" : "";
  await confirm(io, flags, `Trust these files${later}, and offer them as tools?`);
  const folder = await client.workspaces.trust({ path, watch: options.watch === true, digest });
  out.data(folder, () => `Trusted ${folder.path} as ${folder.package_id}@${folder.package_version}`);
  sayErrors(context, folder);
  await sayTools(context, { ...folder, unbound_slots: [] }, { broken: false });
  return undefined;
}

async function list(context: Context): Promise<undefined> {
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
  for (const each of items) sayErrors(context, each);
  return undefined;
}

async function show(context: Context, _options: object, dir: string): Promise<undefined> {
  const { io, out } = context;
  const review = await context.client().workspaces.review(resolve(io.cwd, dir));
  out.data(review, () => reviewText(review));
  if (review.trusted !== null) sayErrors(context, review.trusted);
  if (review.changes.length > 0) out.note(`Trust them: backplane workspace trust ${dir}`);
  return undefined;
}

function reviewText({ path, files, changes, trusted }: WorkspaceReview): string {
  const state =
    trusted === null ? "not trusted" : changes.length === 0 ? "trusted" : "trusted, and changed since";
  const lines = [plainLine(`${path}: ${files.length} files, ${state}`)];
  for (const { change, path: file, text } of changes) {
    lines.push("", plainLine(`--- ${change}: ${file}`));
    if (change !== "removed") lines.push(text === null ? "(no text, or too long to show)" : plainText(text));
  }
  return lines.join("\n");
}

async function untrust(context: Context, _options: object, dir: string): Promise<undefined> {
  const { io, flags, out } = context;
  const client = context.client();
  const path = resolve(io.cwd, dir);
  const found = (await client.workspaces.list()).filter((each) => each.path === path || each.id === dir);
  if (found.length === 0) {
    throw new BackplaneError("workspace.not_found", `${path} is not trusted.`, {
      fix: "backplane workspace list",
    });
  }
  await confirm(io, flags, `Take the tools of ${path} away?`);
  for (const { id } of found) await client.workspaces.untrust(id);
  out.data({ untrusted: path }, () => `${path} is not trusted any more`);
  return undefined;
}
