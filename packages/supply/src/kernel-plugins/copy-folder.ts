/**
 * Copies the folder of a plugin with its node_modules, but without version control data. The folder must be
 * self-contained: links to the outside, devices and sockets are refused.
 */
import { constants } from "node:fs";
import { chmod, copyFile, lstat, mkdir, readdir, realpath, symlink } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { type Operation, requireNotCancelled } from "@backplane/ports";

interface FolderLimits {
  /** Files, folders and links together. */
  files: number;
  bytes: number;
}

const FOLDER_LIMITS: FolderLimits = { files: 50_000, bytes: 512 * 1024 * 1024 };

const EXCLUDED = new Set([".git", ".hg", ".svn"]);

/** `into` must not exist. Cancelling the operation stops the copy and leaves it incomplete. */
export async function copyFolder(
  from: string,
  into: string,
  operation: Pick<Operation, "signal">,
  limits = FOLDER_LIMITS,
): Promise<void> {
  const root = await realpath(from);
  const remaining = { ...limits };
  const walk = async (path: string): Promise<void> => {
    await mkdir(join(into, path));
    // Independent of the umask and the original: if the gateway runs as root, the plugin runs as another user.
    await chmod(join(into, path), 0o755);
    for (const name of await readdir(join(root, path))) {
      if (EXCLUDED.has(name)) continue;
      requireNotCancelled(operation);
      const inner = join(path, name);
      const source = join(root, inner);
      const info = await lstat(source);
      if (--remaining.files < 0) throw refusal(`it has more than ${limits.files} files`);
      if (info.isDirectory()) await walk(inner);
      else if (info.isSymbolicLink()) await copyLink(root, inner, into);
      else if (!info.isFile()) throw refusal(`${inner} is neither a file nor a folder`);
      else {
        remaining.bytes -= info.size;
        if (remaining.bytes < 0) throw refusal(`it is larger than ${limits.bytes} bytes`);
        await copyFile(source, join(into, inner), constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
        await chmod(join(into, inner), (info.mode & 0o111) === 0 ? 0o644 : 0o755);
      }
    }
  };
  await walk("");
}

/** The link is rewritten from its real target, so that it points into the copy and not to the original. */
async function copyLink(root: string, path: string, into: string): Promise<void> {
  let target: string;
  try {
    target = await realpath(join(root, path));
  } catch {
    throw refusal(`the link ${path} is broken`);
  }
  if (!target.startsWith(root + sep)) throw refusal(`the link ${path} points outside the folder`);
  await symlink(relative(dirname(join(root, path)), target), join(into, path));
}

function refusal(reason: string): BackplaneError {
  return new BackplaneError("plugin.install_failed", `The folder cannot be copied: ${reason}.`, {
    fix: "Make the folder self-contained, or link it with --editable.",
  });
}
