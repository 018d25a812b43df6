/** `plugin push` and `plugin pull`: copy packages between this machine and an OCI registry, without a gateway. */
import { createWriteStream, existsSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";
import type { HostPlatform, RegistryClient } from "@backplane/supply";
import type { CommandContext } from "../../context/context.ts";
import { statSource } from "../../install/plugin-source.ts";
import { readSignatureFile } from "../../install/signature-file.ts";
import { moveToNewFile, moveToNewFolder, unwritableError } from "./new-output.ts";
import { createAddressLookup } from "./registry-addresses.ts";
import { findRegistryLogin } from "./registry-login.ts";

export interface RegistryFlags {
  insecure?: boolean;
}

export async function pushPlugin(
  context: CommandContext,
  options: RegistryFlags & { signature?: string; acceptSource?: boolean },
  source: string,
  target: string,
): Promise<undefined> {
  const supply = await import("@backplane/supply");
  const reference = supply.parseReference(target);
  if (reference.tag === null || reference.digest !== null)
    throw new BackplaneError(
      "cli.usage",
      `${target} cannot be the target of an upload: it must have a tag and no digest.`,
      {
        fix: `backplane plugin push ${source} oci://HOST/NAME:TAG`,
      },
    );
  const path = resolve(context.io.cwd, source);
  statSource(path, source);
  const signature = readSignatureFile(context.io.cwd, path, options.signature);
  await inTemporaryFolder(tmpdir(), async (temporary) => {
    const { dir, store } = await context.out.during(`Packing ${source}`, () =>
      supply.openAsLayout(path, temporary),
    );
    const artifact = await supply.readPluginArtifact(store, hostPlatform());
    supply.requireSameSource(reference, artifact.source, options.acceptSource === true);
    await withClient(context, reference, options, async (client) => {
      const pushed = await context.out.during(`Uploading to ${reference.registry}`, () =>
        supply.pushLayout(client, dir, store, reference, signature === undefined ? [] : [signature]),
      );
      const result = {
        reference: supply.formatReference(reference),
        package_id: artifact.package_id,
        version: artifact.version,
        digest: artifact.digest,
        ...pushed,
      };
      context.out.data(
        result,
        () =>
          `Pushed ${artifact.package_id} ${artifact.version} to ${result.reference} (${pushed.manifest_digest}, ${pushed.signatures} ${pushed.signatures === 1 ? "signature" : "signatures"})`,
      );
    });
  });
  context.out.note(`Next: backplane plugin install ${target}`);
  return undefined;
}

export async function pullPlugin(
  context: CommandContext,
  options: RegistryFlags & { out?: string },
  source: string,
): Promise<undefined> {
  const supply = await import("@backplane/supply");
  const reference = supply.parseReference(source);
  const last = reference.repository.split("/").at(-1)!;
  const out = resolve(
    context.io.cwd,
    options.out ?? `${last}-${reference.tag ?? reference.digest!.slice(7, 19)}.oci`,
  );
  if (existsSync(out)) throw unwritableError(out, "already exists");
  // The temporary folder is on the file system of the result, so that one rename completes the download.
  await inTemporaryFolder(dirname(out), async (temporary) => {
    const layout = join(temporary, "layout");
    await withClient(context, reference, options, async (client) => {
      const pulled = await context.out.during(`Downloading from ${reference.registry}`, () =>
        supply.pullLayout(client, reference, layout, hostPlatform()),
      );
      const draft = join(temporary, "out");
      if (/\.(tgz|tar\.gz)$/.test(out))
        await copyFile(join(layout, "blobs", pulled.layer.digest.replace(":", "/")), draft);
      else if (out.endsWith(".tar")) await supply.tarLayout(layout, createWriteStream(draft));
      const is_file = existsSync(draft);
      await (is_file ? moveToNewFile(draft, out) : moveToNewFolder(layout, out));
      const { manifest_digest, digest, package_id, version } = pulled;
      context.out.data(
        { out, manifest_digest, digest, package_id, version, signatures: pulled.signatures.length },
        () => `Pulled ${package_id} ${version} into ${out} (${manifest_digest})`,
      );
    });
  });
  return undefined;
}

async function withClient(
  { io }: CommandContext,
  { registry, repository }: { registry: string; repository: string },
  { insecure }: RegistryFlags,
  work: (client: RegistryClient) => Promise<void>,
): Promise<void> {
  const { createRegistryClient } = await import("@backplane/supply");
  const client = createRegistryClient({
    credentials: (host) => findRegistryLogin(host, repository, io.env),
    addresses: createAddressLookup(registry),
    insecure: insecure === true ? [registry] : [],
  });
  try {
    await work(client);
  } finally {
    client.close();
  }
}

async function inTemporaryFolder(parent: string, work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(parent, ".backplane-oci-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The platform of this machine, which selects the entry of a package that is built for several platforms. */
export function hostPlatform(): HostPlatform {
  const os = process.platform === "win32" ? "windows" : process.platform;
  return { os, arch: process.arch === "x64" ? "amd64" : process.arch } as HostPlatform;
}
