/**
 * Writes the `vai-plugin.toml` of an MCP server, which a person can read before the installation. It states how the
 * server is reached and the maximum rights that an operator can grant; arguments, variables and folders belong to the
 * binding.
 */
import { BackplaneError, type Manifest } from "@backplane/contract";
import { PackageIdSchema, SlotSchema, VersionSchema } from "@backplane/contract/schema";
import type { HostPlatform } from "../../manifest/host-platform.ts";
import { formatTomlLines } from "../../manifest/toml-text.ts";

export interface ServerDraft {
  package_id: string;
  version: string;
  name: string;
  description?: string;
  license?: string;
  source?: string;
  runtime: { protocol: "mcp.stdio"; entrypoint: readonly string[] } | { protocol: "mcp.http"; url: string };
  secret_slots: readonly string[];
  /** The only platform that the server runs on. */
  platform?: HostPlatform;
}

/** Throws package.invalid for invalid values. */
export function buildServerManifest(draft: ServerDraft): string {
  requireValid(
    PackageIdSchema.safeParse(draft.package_id).success,
    `${draft.package_id} is not a package id`,
  );
  requireValid(VersionSchema.safeParse(draft.version).success, `${draft.version} is not a semantic version`);
  for (const slot of draft.secret_slots) {
    requireValid(
      SlotSchema.safeParse(slot).success,
      `${slot} is not a valid name for a secret slot; write a name such as api_key`,
    );
  }
  const { runtime } = draft;
  const http = runtime.protocol === "mcp.http" ? readUrl(runtime.url) : null;
  const entrypoint = runtime.protocol === "mcp.http" ? [http!.href] : runtime.entrypoint;
  const permissions: Record<string, unknown> = {
    network: "egress" satisfies Manifest["exports"][number]["permissions"]["network"],
    ...(http === null ? { filesystem: "scratch" } : { allowed_domains: [hostAndPort(http)] }),
    ...(draft.secret_slots.length === 0 ? {} : { secret_slots: draft.secret_slots }),
  };
  return [
    ...formatTomlLines({
      api_version: "vai.plugin.v1",
      package_id: draft.package_id,
      version: draft.version,
      name: draft.name.slice(0, 120),
      ...(draft.description === undefined ? {} : { description: draft.description.slice(0, 4_000) }),
      ...(draft.license === undefined ? {} : { license: draft.license.slice(0, 120) }),
      ...(draft.source === undefined ? {} : { source: draft.source.slice(0, 1_024) }),
    }),
    "",
    "[runtime]",
    ...formatTomlLines({
      protocol: runtime.protocol,
      transport: http === null ? "stdio" : "http",
      entrypoint,
      ...(draft.platform === undefined ? {} : { os: [draft.platform.os], arch: [draft.platform.arch] }),
    }),
    "",
    "# The maximum that a binding may be granted; without domains in its policy it has no network access.",
    "[runtime.permissions]",
    ...formatTomlLines(permissions),
    "",
  ].join("\n");
}

/** The last part becomes the name of the server in `mcp_<server>_<tool>`. */
export function toPackageId(publisher: string, name: string): string {
  const clean = (text: string) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, "-")
      .replace(/^[^a-z0-9]+/, "");
  return `${clean(publisher) || "local"}/${clean(name) || "server"}`.slice(0, 128);
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  requireValid(
    url !== null && (url.protocol === "https:" || url.protocol === "http:") && url.username === "",
    `${text.slice(0, 200)} is not a URL of an MCP server; write https://host/mcp, without a password`,
  );
  return url!;
}

/** The host and port in the format of a grant. */
function hostAndPort(url: URL): string {
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return `${url.hostname}:${port}`;
}

function requireValid(holds: boolean, problem: string): void {
  if (!holds) throw new BackplaneError("package.invalid", `${problem}.`);
}
