/**
 * An MCP server as a package of ours: a `vai-plugin.toml` that a person can read before it is installed. It says how the
 * server is reached and the most that an operator may grant it; arguments, variables and folders are the binding's.
 */
import { BackplaneError, type Manifest } from "@backplane/contract";
import { PackageIdSchema, SlotSchema, VersionSchema } from "@backplane/contract/schema";
import { tomlLines } from "../../manifest/toml-text.ts";

export interface ServerDraft {
  package_id: string;
  version: string;
  name: string;
  description?: string;
  license?: string;
  source?: string;
  runtime: { protocol: "mcp.stdio"; entrypoint: readonly string[] } | { protocol: "mcp.http"; url: string };
  secret_slots: readonly string[];
}

/** Throws package.invalid where a part cannot be what it should be. */
export function serverManifest(draft: ServerDraft): string {
  check(PackageIdSchema.safeParse(draft.package_id).success, `${draft.package_id} is no package id`);
  check(VersionSchema.safeParse(draft.version).success, `${draft.version} is no semantic version`);
  for (const slot of draft.secret_slots) {
    check(SlotSchema.safeParse(slot).success, `${slot} is no name of a secret slot; write it like api_key`);
  }
  const { runtime } = draft;
  const http = runtime.protocol === "mcp.http" ? readUrl(runtime.url) : null;
  const entrypoint = runtime.protocol === "mcp.http" ? [http!.href] : runtime.entrypoint;
  const permissions: Record<string, unknown> = {
    network: "egress" satisfies Manifest["exports"][number]["permissions"]["network"],
    ...(http === null ? { filesystem: "scratch" } : { allowed_domains: [placeOf(http)] }),
    ...(draft.secret_slots.length === 0 ? {} : { secret_slots: draft.secret_slots }),
  };
  return [
    ...tomlLines({
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
    ...tomlLines({ protocol: runtime.protocol, transport: http === null ? "stdio" : "http", entrypoint }),
    "",
    "# The most that a binding may be granted; without domains in its policy it reaches nothing.",
    "[runtime.permissions]",
    ...tomlLines(permissions),
    "",
  ].join("\n");
}

/** The last part becomes the server's name in `mcp_<server>_<tool>`. */
export function packageIdOf(publisher: string, name: string): string {
  const plain = (text: string) =>
    text
      .toLowerCase()
      .replace(/[^a-z0-9._-]+/g, "-")
      .replace(/^[^a-z0-9]+/, "");
  return `${plain(publisher) || "local"}/${plain(name) || "server"}`.slice(0, 128);
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  check(
    url !== null && (url.protocol === "https:" || url.protocol === "http:") && url.username === "",
    `${text.slice(0, 200)} is no address of an MCP server; write https://host/mcp, without a password in it`,
  );
  return url!;
}

/** What a grant calls it: an address literal is spelled as such, a name with its port. */
function placeOf(url: URL): string {
  const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  return `${url.hostname}:${port}`;
}

function check(holds: boolean, problem: string): void {
  if (!holds) throw new BackplaneError("package.invalid", `${problem}.`);
}
