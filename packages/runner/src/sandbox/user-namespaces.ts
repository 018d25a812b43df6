/**
 * Finds the settings with which the system refuses user namespaces to an ordinary user, and the command that allows
 * them. Each setting exists only on some kernels.
 */
import { readFileSync } from "node:fs";

const SETTINGS = [
  { name: "user.max_user_namespaces", refuses: "0", command: "user.max_user_namespaces=15000" },
  { name: "kernel.unprivileged_userns_clone", refuses: "0", command: "kernel.unprivileged_userns_clone=1" },
  {
    name: "kernel.apparmor_restrict_unprivileged_userns",
    refuses: "1",
    command: "kernel.apparmor_restrict_unprivileged_userns=0",
  },
] as const;

/** Null if no setting refuses them. One command even if several settings do. */
export function userNamespaceFix(root = "/proc/sys"): string | null {
  const refusing = SETTINGS.filter(({ name, refuses }) => read(root, name) === refuses);
  if (refusing.length === 0) return null;
  const commands = refusing.map(({ command }) => command).join(" ");
  return `Allow user namespaces: sudo sysctl -w ${commands}, then start the gateway again`;
}

function read(root: string, name: string): string | null {
  try {
    return readFileSync(`${root}/${name.replaceAll(".", "/")}`, "utf8").trim();
  } catch {
    return null;
  }
}
