/**
 * The keys and certificates that Sigstore bundles are verified with. The library contains the root of the public
 * Sigstore; if its update server can be reached, the current root is used instead. An operator of a private Sigstore
 * specifies a file.
 */
import { hash } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, type Provenance } from "@backplane/contract";
import type { TrustMaterial } from "@sigstore/verify";

export interface LoadedTrustRoot {
  material: TrustMaterial;
  description: NonNullable<Provenance["trust_root"]>;
}

export interface TrustRoot {
  /** Throws `config.invalid` if the file of the operator cannot be used. */
  load(): Promise<LoadedTrustRoot>;
}

export interface TrustRootOptions {
  /** A trusted_root.json that replaces the public Sigstore; null uses the public one. */
  file: string | null;
  /** The folder for updates of the public root. */
  folder: string;
  now: () => number;
  /** Fetches the current root of the public Sigstore; by default with TUF, which keeps its files in the folder. */
  update?: (folder: string) => Promise<string>;
}

const REFRESH_MS = 24 * 3_600_000;
/** On a network without the update server, an attempt may take until its timeout. */
const RETRY_MS = 3_600_000;
const UPDATE_TIMEOUT_MS = 5_000;

const PUBLIC_SIGSTORE = "https://tuf-repo-cdn.sigstore.dev";
const TARGET = "trusted_root.json";

export function createTrustRoot({ file, folder, now, update = updateWithTuf }: TrustRootOptions): TrustRoot {
  if (file !== null) return { load: () => loadFile(file) };
  const copy = join(folder, TARGET);
  let cached: { root: Promise<LoadedTrustRoot>; until: number } | null = null;

  async function loadPublic(extend: (ms: number) => void): Promise<LoadedTrustRoot> {
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const text = await update(folder);
      const root = await parse(text, "the public Sigstore");
      await writeFile(`${copy}.part`, text, { mode: 0o600 });
      await rename(`${copy}.part`, copy);
      extend(REFRESH_MS);
      return root;
    } catch {
      // The last root that was fetched, or the embedded one, can still be used.
    }
    try {
      return await parse(await readFile(copy, "utf8"), "the public Sigstore, not updated");
    } catch {
      return await parse(await readEmbedded(), "the public Sigstore, as embedded in this version");
    }
  }

  return {
    load() {
      if (cached === null || now() >= cached.until) {
        const next = {
          root: Promise.resolve() as unknown as Promise<LoadedTrustRoot>,
          until: now() + RETRY_MS,
        };
        next.root = loadPublic((ms) => {
          next.until = now() + ms;
        });
        cached = next;
      }
      return cached.root;
    },
  };
}

async function loadFile(file: string): Promise<LoadedTrustRoot> {
  try {
    return await parse(await readFile(file, "utf8"), file);
  } catch (error) {
    throw new BackplaneError(
      "config.invalid",
      `packages.sigstore_trust_root: ${file} is not a trusted_root.json (${(error as Error).message}).`,
      { cause: error },
    );
  }
}

async function parse(text: string, name: string): Promise<LoadedTrustRoot> {
  const [{ TrustedRoot }, { toTrustMaterial }] = await Promise.all([
    import("@sigstore/protobuf-specs"),
    import("@sigstore/verify"),
  ]);
  const material = toTrustMaterial(TrustedRoot.fromJSON(JSON.parse(text)));
  if (material.certificateAuthorities.length === 0 || material.tlogs.length === 0)
    throw new Error("it has no certificate authority or no transparency log");
  return { material, description: { name, digest: `sha256:${hash("sha256", text, "hex")}` } };
}

async function updateWithTuf(folder: string): Promise<string> {
  const { initTUF } = await import("@sigstore/tuf");
  const client = await initTUF({
    mirrorURL: PUBLIC_SIGSTORE,
    cachePath: join(folder, "tuf"),
    timeout: UPDATE_TIMEOUT_MS,
    retry: { retries: 0 },
  });
  return await client.getTarget(TARGET);
}

async function readEmbedded(): Promise<string> {
  const { default: seeds } = (await import("@sigstore/tuf/seeds.json", { with: { type: "json" } })) as {
    default: Record<string, { targets: Record<string, string> }>;
  };
  return Buffer.from(seeds[PUBLIC_SIGSTORE]!.targets[TARGET]!, "base64").toString("utf8");
}
