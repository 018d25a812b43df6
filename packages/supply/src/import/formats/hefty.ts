/**
 * Reads an instrument plugin: a folder, zip or jar with `META-INF/hefty-plugin.json`. All invalid fields are reported
 * together, most with a correction. The file does not list the instruments; the running plugin is asked for them.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import {
  BackplaneError,
  HEFTY_VERSION,
  INSTRUMENT_MANIFEST_FILE,
  INSTRUMENT_PLATFORMS,
  type InstrumentPlatform,
  ISOLATION_MODES,
  type IsolationMode,
  isObject,
  type Manifest,
} from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import { mostSimilar } from "../../manifest/known-fields.ts";
import type { TreeListing } from "../../tree/tree-listing.ts";
import type { PackageFormat } from "./format.ts";
import { resolveStart } from "./hefty-start.ts";

const FIELDS = [
  "id",
  "name",
  "version",
  "author",
  "description",
  "providerClass",
  "isolationMode",
  "dependencies",
  "platforms",
  "minHeftyVersion",
  "x-backplane",
];
const ID = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/;
const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;
const MAX_BYTES = 64 * 1024;
/** Hefty's plugin ids have no publisher, so all plugins get this one. */
const PUBLISHER = "hefty";
const SYSTEMS = { Linux: "linux", MacOS: "darwin", Windows: "windows" } as const;

interface HeftyManifest {
  id: string;
  name: string;
  version: string;
  author: string;
  description: string;
  providerClass: string;
  isolationMode: IsolationMode;
  dependencies: string[];
  platforms: InstrumentPlatform[];
  minHeftyVersion: string | null;
  /** Our extension, which Hefty ignores: the permissions that the plugin's process may request. */
  permissions: unknown;
}

export const hefty: PackageFormat = {
  name: INSTRUMENT_MANIFEST_FILE,
  starts_own_program: true,
  matchesNames: (names) => names.includes("META-INF"),
  recognizes: ({ files }) => files.some(({ path }) => path === INSTRUMENT_MANIFEST_FILE),
  async read(tree, listing) {
    const size = listing.files.find(({ path }) => path === INSTRUMENT_MANIFEST_FILE)?.size ?? 0;
    if (size > MAX_BYTES) throw invalid([["", `it is larger than ${MAX_BYTES} bytes`]]);
    const text = await readFile(join(tree, INSTRUMENT_MANIFEST_FILE), "utf8");
    return { manifest: await toManifest(parse(text), listing, tree), text };
  },
};

async function toManifest(
  fields: Record<string, unknown>,
  listing: TreeListing,
  tree: string,
): Promise<Manifest> {
  const plugin = check(fields);
  if (plugin.minHeftyVersion !== null && isNewer(plugin.minHeftyVersion, HEFTY_VERSION)) {
    const needs = `needs Hefty ${plugin.minHeftyVersion}, and this host is compatible with ${HEFTY_VERSION}`;
    throw invalid([["minHeftyVersion", `${plugin.id} ${needs}; install an older version of the plugin`]]);
  }
  const start = await resolveStart(plugin.providerClass, plugin.isolationMode, listing, tree);
  if (typeof start === "string") throw invalid([["providerClass", start]]);
  const os = plugin.platforms.includes("All")
    ? []
    : plugin.platforms.map((platform) => SYSTEMS[platform as keyof typeof SYSTEMS]);
  const parsed = ManifestSchema.safeParse({
    api_version: "vai.plugin.v1",
    package_id: `${PUBLISHER}/${plugin.id}`,
    version: plugin.version,
    name: plugin.name,
    description: plugin.description,
    runtime: {
      ...start,
      transport: "stdio",
      ...(os.length === 0 ? {} : { os }),
      ...(plugin.permissions === undefined ? {} : { permissions: plugin.permissions }),
      instrument: {
        plugin_id: plugin.id,
        author: plugin.author,
        isolation: plugin.isolationMode,
        dependencies: plugin.dependencies,
        ...(plugin.minHeftyVersion === null ? {} : { min_hefty_version: plugin.minHeftyVersion }),
      },
    },
    exports: [],
  });
  if (parsed.success) return parsed.data;
  // After `check`, usually only our extension can be invalid.
  throw invalid(
    parsed.error.issues.map(({ message, path }) => ["x-backplane", `${path.slice(1).join(".")}: ${message}`]),
  );
}

type Issue = [path: string, message: string];

function parse(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    const reason = (error as Error).message.split("\n")[0]?.slice(0, 160);
    throw invalid([["META-INF/hefty-plugin.json", `it is not valid JSON: ${reason}`]]);
  }
  if (isObject(value)) return value;
  throw invalid([["", "write one object with id, name, version, author, description and providerClass"]]);
}

function check(raw: Record<string, unknown>): HeftyManifest {
  const issues: Issue[] = [];
  const text = (field: string, label: string, fits: (value: string) => boolean): string => {
    const value = raw[field];
    if (typeof value === "string" && fits(value)) return value;
    const actual = value === undefined ? "is missing" : `is ${JSON.stringify(value).slice(0, 120)}`;
    issues.push([field, `${field} ${actual}; write ${label}`]);
    return "";
  };
  const list = <T extends string>(field: string, label: string, fits: (value: string) => boolean): T[] => {
    const value = raw[field] ?? [];
    const valid =
      Array.isArray(value) &&
      value.length <= 64 &&
      value.every((item) => typeof item === "string" && fits(item));
    if (valid && new Set(value).size === value.length) return value as T[];
    issues.push([
      field,
      `${field} is ${JSON.stringify(value).slice(0, 120)}; write a list of ${label}, each once`,
    ]);
    return [];
  };
  for (const key of Object.keys(raw)) {
    if (FIELDS.includes(key)) continue;
    const suggestion = mostSimilar(key, FIELDS);
    issues.push([
      key,
      `${key} is not a field of this file${suggestion === undefined ? "" : `; did you mean ${suggestion}?`}`,
    ]);
  }
  const isShort = (value: string) => value.length > 0 && value.length <= 120;
  const isPlatform = (value: string) => (INSTRUMENT_PLATFORMS as readonly string[]).includes(value);
  const extension = raw["x-backplane"] ?? {};
  if (!isObject(extension) || Object.keys(extension).some((key) => key !== "permissions")) {
    issues.push(["x-backplane", "x-backplane must be an object with permissions and nothing else"]);
  }
  const manifest: HeftyManifest = {
    id: text(
      "id",
      "lower case with hyphens, such as jira-integration",
      (value) => value.length <= 64 && ID.test(value),
    ),
    name: text("name", "the display name, at most 120 characters", isShort),
    version: text(
      "version",
      "a semantic version, such as 1.0.0",
      (value) => value.length <= 64 && VERSION.test(value),
    ),
    author: text("author", "a name of at most 120 characters", isShort),
    description: text(
      "description",
      "what the plugin does, at most 4000 characters",
      (value) => value.length <= 4_000,
    ),
    providerClass: text(
      "providerClass",
      'a module\'s export such as "./provider.js#HelloProvider", or for External a command',
      (value) => value.trim() !== "" && value.length <= 1_024,
    ),
    isolationMode:
      raw.isolationMode === undefined
        ? "InProcess"
        : (text("isolationMode", `one of ${ISOLATION_MODES.join(", ")}`, (value) =>
            (ISOLATION_MODES as readonly string[]).includes(value),
          ) as IsolationMode),
    dependencies: list("dependencies", "plugin ids such as jira-integration", (value) => ID.test(value)),
    platforms: list("platforms", INSTRUMENT_PLATFORMS.join(", "), isPlatform),
    minHeftyVersion:
      raw.minHeftyVersion === undefined || raw.minHeftyVersion === null
        ? null
        : text("minHeftyVersion", "a semantic version, such as 0.22.0", (value) => VERSION.test(value)),
    permissions: isObject(extension) ? extension.permissions : undefined,
  };
  if (manifest.dependencies.includes(manifest.id)) {
    issues.push(["dependencies", `dependencies names ${manifest.id} itself; remove it`]);
  }
  if (issues.length > 0) throw invalid(issues);
  return manifest;
}

/** The numbers are compared first. A pre-release precedes its release, and pre-releases are compared as text. */
function isNewer(version: string, than: string): boolean {
  const numbersOf = (text: string) => (text.split(/[-+]/)[0] as string).split(".").map(Number);
  const [a, b] = [numbersOf(version), numbersOf(than)];
  for (const index of [0, 1, 2]) {
    const difference = (a[index] as number) - (b[index] as number);
    if (difference !== 0) return difference > 0;
  }
  const preReleaseOf = (text: string) => /^[^+]*?-([^+]*)/.exec(text)?.[1] ?? null;
  const [pre_release, other_pre_release] = [preReleaseOf(version), preReleaseOf(than)];
  if (pre_release === null) return other_pre_release !== null;
  return other_pre_release !== null && pre_release > other_pre_release;
}

function invalid(issues: readonly Issue[]): BackplaneError {
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more, see details.issues)` : "";
  return new BackplaneError("package.invalid", `${INSTRUMENT_MANIFEST_FILE}: ${issues[0]?.[1]}${more}`, {
    details: {
      file: INSTRUMENT_MANIFEST_FILE,
      issues: issues.slice(0, 50).map(([path, message]) => ({ path, message: message.slice(0, 400) })),
    },
  });
}
