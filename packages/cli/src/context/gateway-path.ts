/** Paths on the gateway's machine, which may not be this machine. */
import { homedir } from "node:os";
import { posix, resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { CommandContext } from "./context.ts";
import { readDaemonFile } from "./locate-gateway.ts";

/**
 * Resolves a relative path, or one that starts with `~`, only for the gateway of this home, which runs on this machine:
 * the same path may mean another folder on another machine. `label` names the path in the error.
 */
export function resolveGatewayPath(
  context: Pick<CommandContext, "io" | "home" | "url">,
  path: string,
  label: string,
): string {
  if (posix.isAbsolute(path)) return posix.normalize(path);
  const url = context.url();
  if (readDaemonFile(context.home)?.url === url)
    return resolve(
      context.io.cwd,
      path.replace(/^~(?=\/|$)/, () => context.io.env.HOME || homedir()),
    );
  throw new BackplaneError(
    "cli.usage",
    `${label} is not an absolute path. The folder is on the machine of the gateway at ${url}, which is not the gateway of this $BACKPLANE_HOME.`,
    { fix: "Write the whole path of the folder on the gateway's machine, as in /srv/notes." },
  );
}
