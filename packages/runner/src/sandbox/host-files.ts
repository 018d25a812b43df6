/** Finds the system files that are visible in every sandbox, and creates the small files that replace the host's. */
import { hash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { access, lstat, readlink } from "node:fs/promises";
import type { PrivateCopies } from "../programs/private-copies.ts";
import { INSIDE_UID, type SandboxHost } from "./plan.ts";

/** Links into /usr on most systems, separate folders on others. */
const PROGRAM_FOLDERS = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/** Alternatives, libraries, fonts and certificates: nothing about users or the network. */
const ETC = ["/etc/alternatives", "/etc/fonts", "/etc/ssl/certs", "/etc/ld.so.cache", "/etc/pki/tls/certs"];

/** Replacements for the host's files: the plugin's user, and localhost as the only host. */
const FILES = {
  passwd: `plugin:x:${INSIDE_UID}:${INSIDE_UID}:plugin:/nonexistent:/bin/false\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n`,
  group: `plugin:x:${INSIDE_UID}:\nnogroup:x:65534:\n`,
  hosts: "127.0.0.1 localhost sandbox\n::1 localhost\n",
} as const;

/**
 * Debian's chromium reads every file of this folder and exits if there is none. The host's files are replaced, because
 * they may contain API keys. Chromium's own sandbox needs user namespaces, which no plugin can create, and /dev/shm is
 * too small for it.
 */
const CHROMIUM = {
  folder: "/etc/chromium.d",
  flags: 'export CHROMIUM_FLAGS="$CHROMIUM_FLAGS --no-sandbox --disable-dev-shm-usage"\n',
} as const;

export async function readSystem(): Promise<Pick<SandboxHost, "system" | "links">> {
  const system = ["/usr"];
  const links: { path: string; target: string }[] = [];
  for (const path of PROGRAM_FOLDERS) {
    const info = await lstat(path).catch(() => null);
    if (info === null) continue;
    if (info.isSymbolicLink()) links.push({ path, target: await readlink(path) });
    else if (info.isDirectory()) system.push(path);
  }
  for (const path of ETC) {
    const readable = await access(path, constants.R_OK).then(
      () => true,
      () => false,
    );
    if (readable) system.push(path);
  }
  return { system, links };
}

/** /etc/hosts with additional names. The same names always result in the same file. */
export function writeHostsFile(
  copies: PrivateCopies,
  names: readonly { address: string; name: string }[],
): string {
  const listed = names.filter(({ address, name }) => name !== "localhost" && name !== address);
  const lines = listed.map(({ address, name }) => `${address} ${name}\n`).join("");
  const bytes = Buffer.from(FILES.hosts + lines);
  return copies.put(`hosts-${hash("sha256", bytes, "hex")}`, bytes);
}

export function writeOwnFiles(copies: PrivateCopies): SandboxHost["files"] {
  const files = Object.entries(FILES).map(([name, text]) => ({
    source: copies.put(name, Buffer.from(text)),
    target: `/etc/${name}`,
  }));
  if (!existsSync(CHROMIUM.folder)) return files;
  const source = copies.put("chromium-flags", Buffer.from(CHROMIUM.flags));
  return [...files, { source, target: `${CHROMIUM.folder}/sandbox` }];
}
