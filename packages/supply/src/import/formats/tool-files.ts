/**
 * Reads a folder with TypeScript or JavaScript files directly in `tools`. Each file is a tool; the gateway loads it to
 * describe it when the package is bound. Name, version, description, license and permissions come from
 * install-meta.json or package.json, both optional. Without a version, the version is derived from the content, so that
 * a changed folder never conflicts with an older one of the same name.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { basename, dirname } from "node:path/posix";
import { BackplaneError, isObject, isToolFile, type Permissions } from "@backplane/contract";
import {
  ManifestSchema,
  PackageIdSchema,
  PermissionsSchema,
  VersionSchema,
} from "@backplane/contract/schema";
import type { TreeListing } from "../../tree/tree-listing.ts";
import type { PackageFormat } from "./format.ts";

const TOOLS = "tools";
const META = "install-meta.json";
const PACKAGE = "package.json";
const MAX_META_BYTES = 256 * 1024;
const PUBLISHER = "local";

export const toolFiles: PackageFormat = {
  name: "tool files",
  starts_own_program: true,
  matchesNames: (names) => names.includes(TOOLS),
  recognizes: ({ files }) => files.some(({ path }) => dirname(path) === TOOLS && isToolFile(basename(path))),
  async read(tree, listing, hints = {}) {
    const meta = await readJson(tree, listing, META);
    const metadata = { ...(await readJson(tree, listing, PACKAGE)), ...meta };
    const fileOf = (key: string) => (Object.hasOwn(meta, key) ? META : PACKAGE);
    const name = textOf(metadata.name) ?? hints.name ?? `tools-${shortDigest(listing)}`;
    const manifest = ManifestSchema.parse({
      api_version: "vai.plugin.v1",
      package_id: hints.package_id ?? packageIdFromName(name, fileOf("name")),
      version: chooseVersion(metadata.version, fileOf("version"), listing, hints.changing === true),
      name: name.slice(0, 120),
      description: (textOf(metadata.description) ?? "").slice(0, 4_000),
      license: (textOf(metadata.license) ?? "").slice(0, 120),
      runtime: {
        protocol: "module.tools",
        entrypoint: ["node"],
        ...readPermissions(metadata.backplane, fileOf("backplane")),
      },
      exports: [],
    });
    return { manifest, text: "", installed_at: await readInstallationDate(tree, listing) };
  },
};

/**
 * Explains why a source with tools only in subfolders of tools/ is not a package of tool files: the host loads only
 * the files directly in tools/. Null if no subfolder contains a file that looks like a tool.
 */
export function explainNestedTools({ files }: TreeListing): string | null {
  const nested = files.find(
    ({ path }) =>
      path.startsWith(`${TOOLS}/`) && !path.includes("/node_modules/") && isToolFile(basename(path)),
  );
  return nested === undefined
    ? null
    : `contains ${nested.path}, but only files directly in ${TOOLS}/ are tools; move the tools there`;
}

/** When the plugin was first installed on any machine, according to its own install-meta.json (tools.precedence). */
async function readInstallationDate(tree: string, listing: TreeListing): Promise<string | null> {
  const stamp = textOf((await readJson(tree, listing, META)).installedAt);
  const time = stamp === undefined ? Number.NaN : Date.parse(stamp);
  return Number.isNaN(time) ? null : new Date(time).toISOString();
}

/** Converts `@acme/notes` to acme/notes, and `notes` to local/notes. */
export function packageIdFromName(name: string, file = PACKAGE): string {
  const parts = name.toLowerCase().replace(/^@/, "").split("/");
  const clean = parts.map((part) => part.replace(/[^a-z0-9._-]+/g, "-").replace(/^[^a-z0-9]+|-+$/g, ""));
  const id = [...(clean.length > 1 ? [] : [PUBLISHER]), ...clean.map((part) => part || "tools")].join("/");
  const parsed = PackageIdSchema.safeParse(id);
  if (parsed.success) return parsed.data;
  throw invalid(file, `name ${JSON.stringify(name.slice(0, 80))} cannot be converted to a package id`);
}

/** `"backplane": {"permissions": {…}}` in package.json has the format of `permissions` in a manifest. */
function readPermissions(settings: unknown, file: string): { permissions?: Permissions } {
  const permissions = (settings as { permissions?: unknown } | null | undefined)?.permissions;
  if (permissions === undefined) return {};
  const parsed = PermissionsSchema.safeParse(permissions);
  if (parsed.success) return { permissions: parsed.data };
  const [issue] = parsed.error.issues;
  throw invalid(
    file,
    `backplane.permissions${issue!.path.map((part) => `.${String(part)}`).join("")}: ${issue!.message}`,
  );
}

function chooseVersion(declared: unknown, file: string, listing: TreeListing, changing: boolean): string {
  if (declared === undefined) return `0.0.0-${shortDigest(listing)}`;
  const parsed = VersionSchema.safeParse(declared);
  if (parsed.success)
    return changing ? `${parsed.data.split(/[-+]/)[0]}-${shortDigest(listing)}` : parsed.data;
  throw invalid(file, "version must be a semantic version, such as 0.1.0");
}

/** Begins with a letter, because a numeric part of a version must not begin with 0. */
function shortDigest({ digest }: TreeListing): string {
  return `d${digest.slice("sha256:".length, "sha256:".length + 12)}`;
}

async function readJson(
  tree: string,
  { files }: TreeListing,
  name: string,
): Promise<Record<string, unknown>> {
  const file = files.find(({ path }) => path === name);
  if (file === undefined) return {};
  if (file.size > MAX_META_BYTES) throw invalid(name, `it is larger than ${MAX_META_BYTES} bytes`);
  let value: unknown;
  try {
    value = JSON.parse((await readFile(join(tree, name), "utf8")).replace(/^\ufeff/, ""));
  } catch (error) {
    throw invalid(name, `it is not valid JSON: ${(error as Error).message.split("\n")[0]?.slice(0, 160)}`);
  }
  if (isObject(value)) return { ...value };
  throw invalid(name, "it is not a JSON object");
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function invalid(file: string, reason: string): BackplaneError {
  return new BackplaneError("package.invalid", `${file}: ${reason}.`, { details: { file, why: reason } });
}
