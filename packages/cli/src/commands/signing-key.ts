/** `key generate`, `key trust` and the signing keys of `key list` and `key revoke`. */
import { readFile, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { BackplaneError, diskFault, type TrustedKey } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import type { Cell } from "../terminal/output.ts";
import { confirm } from "../terminal/prompts.ts";

const DEFAULT_FILE = "signing.key";

export async function generateKey(context: CommandContext, options: { out?: string }): Promise<undefined> {
  const { generateSigningKey } = await import("@backplane/supply");
  const file = resolve(context.io.cwd, options.out ?? DEFAULT_FILE);
  const { key_id, private_key, public_key } = generateSigningKey();
  await writeNewFile(file, private_key, 0o600);
  await writeNewFile(`${file}.pub`, public_key, 0o644);
  context.out.data(
    { key_id, private_key_file: file, public_key_file: `${file}.pub` },
    () => `Created ${key_id}: ${file} (keep it secret) and ${file}.pub`,
  );
  context.out.note(`Next: backplane plugin sign FOLDER --key ${file}`);
  context.out.note(`Operators trust the key with: backplane key trust ${file}.pub --name NAME`);
  return undefined;
}

export interface TrustOptions {
  name: string;
  packages?: string[];
  notBefore?: string;
  notAfter?: string;
}

export async function trustKey(
  context: CommandContext,
  options: TrustOptions,
  file: string,
): Promise<undefined> {
  const public_key = await readFile(resolve(context.io.cwd, file), "utf8").catch(() => {
    throw new BackplaneError("cli.usage", `${file} cannot be read.`, {
      fix: "Specify the .pub file of the publisher.",
    });
  });
  if (public_key.includes("PRIVATE KEY"))
    throw new BackplaneError("cli.usage", `${file} is a private key.`, {
      fix: `backplane key trust ${file}.pub --name ${options.name}`,
    });
  const { name, packages } = options;
  const not_before = toLimit(options.notBefore);
  const not_after = toLimit(options.notAfter);
  const key = await context.client().trusted_keys.trust({
    name,
    public_key,
    ...(packages === undefined ? {} : { packages }),
    ...(not_before === undefined ? {} : { not_before }),
    ...(not_after === undefined ? {} : { not_after }),
  });
  context.out.data(
    key,
    () =>
      `Trusted ${key.key_id} as ${key.name} for ${key.packages.join(", ")}${describePeriod(key)} (${key.id})`,
  );
  return undefined;
}

/** `none` removes the limit that a trusted key has. */
function toLimit(time: string | undefined): string | null | undefined {
  return time === "none" ? null : time;
}

function describePeriod({ not_before, not_after }: TrustedKey): string {
  return `${not_before === null ? "" : ` from ${not_before}`}${not_after === null ? "" : ` until ${not_after}`}`;
}

export async function listSigningKeys(context: CommandContext): Promise<TrustedKey[]> {
  const { trusted_keys } = context.client();
  return await listAll((page) => trusted_keys.list(page));
}

export function signingKeyCells(key: TrustedKey): Cell[] {
  const { id, name, key_id, packages, not_after, revoked_at } = key;
  return ["signing", id, name, key_id, null, packages.join(","), null, not_after, revoked_at];
}

export function isSigningKey(id: string): boolean {
  return id.startsWith("tkey_");
}

export async function revokeSigningKey(
  context: CommandContext,
  id: string,
  reason: string | undefined,
): Promise<undefined> {
  await confirm(
    context.io,
    context.flags,
    `Revoke the signing key ${id}? Packages that it signed can no longer be installed.`,
  );
  const key = await context.client().trusted_keys.revoke(id, reason === undefined ? {} : { reason });
  context.out.data(key, () => `Revoked ${key.key_id} (${key.name})`);
  return undefined;
}

async function writeNewFile(file: string, text: string, mode: number): Promise<void> {
  await writeFile(file, text, { mode, flag: "wx" }).catch(async (error: NodeJS.ErrnoException) => {
    const fault = diskFault(error, file);
    if (fault !== null) {
      await rm(file, { force: true });
      throw fault;
    }
    const reason = error.code === "EEXIST" ? "already exists" : "cannot be written";
    throw new BackplaneError("cli.usage", `${file} ${reason}.`, {
      fix: "Choose another file with --out FILE.",
    });
  });
}
