/**
 * `plugin dev`: links a folder to the running gateway, which loads each save, and prints loads, errors and frames until
 * Ctrl-C. A folder that was not linked before is unlinked at the end.
 */
import { resolve } from "node:path";
import { codeOf, type WorkspaceActivity, type WorkspaceFolder } from "@backplane/contract";
import { EXIT } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { pluginSourceError, statSource } from "../../install/plugin-source.ts";
import { plainLine } from "../../terminal/plain-text.ts";
import { describeFrame } from "./frame-text.ts";

export async function devPlugin(
  context: CommandContext,
  _options: object,
  argument: string | undefined,
): Promise<number> {
  const { io, out } = context;
  const folder_text = argument ?? ".";
  const path = resolve(io.cwd, folder_text);
  if (!statSource(path, folder_text).isDirectory()) throw pluginSourceError(folder_text, "is not a folder");
  const { workspaces } = context.client();
  const was_linked = (await workspaces.list()).some((each) => each.path === path && each.kind === "plugin");
  const stop = new AbortController();
  const stopListening = io.onSignal(() => stop.abort());
  try {
    const folder = await workspaces.trust({ path, kind: "plugin", watch: true });
    try {
      reportLinked(context, folder);
      for await (const activity of workspaces.watch(folder.id, { signal: stop.signal }))
        out.line(activity, () => describeActivity(context, activity));
    } finally {
      if (!was_linked) await unlink(context, folder);
    }
  } finally {
    stopListening();
  }
  // Only a signal, such as that of Ctrl-C, ends the loop without an error.
  return EXIT.interrupted;
}

function reportLinked({ out }: CommandContext, { path, package_id }: WorkspaceFolder): void {
  out.note(`Watching ${path} as ${package_id}. Save a file to load it; press Ctrl-C to stop.`);
  out.note("Call an export from another terminal: backplane invoke EXPORT --input '{…}'");
}

/** The gateway may have stopped, or another user may have unlinked the folder. */
async function unlink(context: CommandContext, { id, path }: WorkspaceFolder): Promise<void> {
  const { out } = context;
  try {
    await context.client().workspaces.untrust(id);
    out.note(`Unlinked ${path}.`);
  } catch (error) {
    if (codeOf(error) === "workspace.not_found") return;
    out.note(
      `${path} is still linked: ${(error as Error).message} To unlink it: backplane workspace untrust ${path}`,
    );
  }
}

function describeActivity({ out }: CommandContext, activity: WorkspaceActivity): string {
  const time = out.paint("dim", activity.at.slice(11, 23));
  switch (activity.type) {
    case "loaded": {
      const { package_version, duration_ms, errors } = activity;
      const problems = Object.entries(errors).map(
        ([file, reason]) => `\n  ${plainLine(`${file}: ${reason}`)}`,
      );
      const took = duration_ms === null ? "" : ` in ${duration_ms} ms`;
      return `${time} ${out.paint("green", "loaded")} ${package_version}${took}${problems.join("")}`;
    }
    case "failed": {
      const loaded_version =
        activity.package_version === null
          ? "Nothing is loaded."
          : `${activity.package_version} stays in use.`;
      const message = plainLine(activity.message);
      return `${time} ${out.paint("red", "not loaded")} ${message}${message.includes("stays in use") ? "" : ` ${loaded_version}`}`;
    }
    case "frame":
      return `${time} ${activity.from === "host" ? "→" : "←"} ${plainLine(describeFrame(activity.text))}`;
    case "stderr":
      return activity.text
        .trimEnd()
        .split("\n")
        .map((line) => `${time} ${out.paint("dim", "log")} ${plainLine(line)}`)
        .join("\n");
    case "stray_output":
      return [
        `${time} ${out.paint("red", "stray output on stdout")} ${plainLine(activity.text)}`,
        "  Only frames may go to stdout, so this ended the call. Print to stderr; the SDKs redirect print and console.log.",
      ].join("\n");
    case "dropped":
      return `${time} ${activity.count} lines were dropped, because they were printed too slowly.`;
  }
}
