/** Parses the source of an installation as a person enters it, and builds the command that installs the same source. */
import type { PluginExample } from "@backplane/client";
import { type InstallationRequest, isObject, type JsonObject } from "@backplane/contract";
import { parseJsonText } from "../../parts/text/parse-json-text.ts";

export type RequestedSource = InstallationRequest["source"];

export const SOURCE_KINDS = [
  {
    value: "npm",
    label: "npm",
    short: "MCP server or kernel plugin",
    placeholder: "@scope/server@1.2.3",
    hint: "An MCP server or kernel plugin from the npm registry.",
  },
  {
    value: "pypi",
    label: "PyPI",
    short: "MCP server in Python",
    placeholder: "mcp-server-time==1.2.3",
    hint: "An MCP server from the Python package index.",
  },
  {
    value: "image",
    label: "Container image",
    short: "MCP server in an image",
    placeholder: "ghcr.io/acme/server:1.2",
    hint: "An MCP server in a container image.",
  },
  {
    value: "oci",
    label: "OCI registry",
    short: "Signed package",
    placeholder: "oci://ghcr.io/acme/devkit:0.1.0",
    hint: "A package in an OCI registry.",
  },
  {
    value: "mcp_url",
    label: "Remote MCP server",
    short: "By its URL",
    placeholder: "https://mcp.example.com/mcp",
    hint: "The gateway connects to it; nothing runs here.",
  },
  {
    value: "mcp_json",
    label: "mcp.json",
    short: "Servers of another client",
    placeholder: '{ "mcpServers": { … } }',
    hint: "All servers in another client's configuration file.",
  },
  {
    value: "folder",
    label: "Folder",
    short: "On the gateway's machine",
    placeholder: "/home/me/my-plugin",
    hint: "A folder on the gateway's machine.",
  },
  {
    value: "example",
    label: "Example",
    short: "Comes with Backplane",
    placeholder: "Choose an example",
    hint: "A plugin to try out and to learn from.",
  },
  {
    value: "archive",
    label: "Archive",
    short: "From this computer",
    placeholder: "",
    hint: "A .tgz, .zip, .jar or OCI layout from this computer.",
  },
] as const;

export type SourceKind = (typeof SOURCE_KINDS)[number]["value"];

export interface SourceDraft {
  kind: SourceKind;
  text: string;
  /** The name of a remote server. */
  name: string;
  /** Arguments of a server, one per line. */
  args: string;
  /** The program of a Python package, if it has several. */
  script: string;
  /** Slots of a server for secrets that it does not declare itself. */
  slots: readonly string[];
}

/**
 * Recognizes the kind of a source by the notation of the command line: `npm:NAME`, `oci://…`, `https://…`, `/folder`.
 * Any other text is the name of an npm package.
 */
export function draftOf(text: string): SourceDraft {
  const plain = { name: "", args: "", script: "", slots: [] };
  for (const kind of ["npm", "pypi", "image"] as const)
    if (text.startsWith(`${kind}:`)) return { ...plain, kind, text: text.slice(kind.length + 1) };
  if (text.startsWith("example:")) return { ...plain, kind: "example", text: text.slice("example:".length) };
  if (text.startsWith("oci://")) return { ...plain, kind: "oci", text };
  if (/^https?:\/\//.test(text)) return { ...plain, kind: "mcp_url", text };
  if (text.startsWith("/")) return { ...plain, kind: "folder", text };
  if (text.trimStart().startsWith("{")) return { ...plain, kind: "mcp_json", text };
  return { ...plain, kind: "npm", text };
}

/** If the draft is incomplete or invalid, returns the reason as a string. `examples` are those of the gateway. */
export function readSource(
  draft: SourceDraft,
  examples: readonly PluginExample[] = [],
): RequestedSource | string {
  const text = draft.text.trim();
  const args = draft.args.split("\n").filter((line) => line !== "");
  const slots = draft.slots.length === 0 ? {} : { secret_slots: [...draft.slots] };
  if (text === "") return "Enter what to install.";
  switch (draft.kind) {
    case "npm":
      return { kind: "npm", spec: text, args, ...slots };
    case "pypi": {
      const script = draft.script.trim();
      return { kind: "pypi", spec: text, args, ...(script === "" ? {} : { script }), ...slots };
    }
    case "image":
      return { kind: "image", reference: text, args, ...slots };
    case "example": {
      const example = examples.find(({ name }) => name === text);
      return example === undefined
        ? `${text} is not an example of this gateway.`
        : { kind: "folder", path: example.path };
    }
    case "oci":
      return { kind: "oci", reference: ociReference(text) };
    case "folder":
      return text.startsWith("/") ? { kind: "folder", path: text } : "Enter the absolute path of the folder.";
    case "mcp_url": {
      const name = draft.name.trim();
      return name === ""
        ? "Name the server; its tools will be named mcp_NAME_…."
        : { kind: "mcp_url", name, url: text, ...slots };
    }
    case "mcp_json":
      return readMcpJson(text, slots);
    case "archive":
      return "Choose a file.";
  }
}

function readMcpJson(text: string, slots: { secret_slots?: string[] }): RequestedSource | string {
  const { value, problem } = parseJsonText(text);
  if (problem !== null) return problem;
  return isObject(value)
    ? { kind: "mcp_json", document: value as JsonObject, ...slots }
    : 'Paste the whole file, with { "mcpServers": { … } }.';
}

/** The command that installs the same source. */
export function installCommand(draft: SourceDraft, file: string | null, flags: string[] = []): string[] {
  const { kind } = draft;
  const [text, name, script] = [draft.text.trim(), draft.name.trim(), draft.script.trim()];
  const is_server = SERVER_KINDS.includes(kind);
  const args = draft.args.split("\n").filter((line) => line !== "");
  // Binding a secret to a slot with `--secret` also declares the slot.
  const slots = is_server ? draft.slots.flatMap((slot) => ["--secret", `${slot}=NAME`]) : [];
  const rest = [...slots, ...flags, ...(args.length > 0 && TAKES_ARGS.includes(kind) ? ["--", ...args] : [])];
  const install = ["backplane", "plugin", "install"];
  if (kind === "archive") return [...install, file ?? "FILE", ...rest];
  if (kind === "mcp_url") return [...install, "--mcp", text, name === "" ? "NAME" : name, ...rest];
  if (kind === "mcp_json") return [...install, "./mcp.json", ...rest];
  if (kind === "pypi" && script !== "") return [...install, `pypi:${text}`, "--script", script, ...rest];
  if (kind === "oci") return [...install, ociReference(text), ...rest];
  return [...install, PREFIXED.includes(kind) ? `${kind}:${text}` : text, ...rest];
}

function ociReference(text: string): string {
  return text.startsWith("oci://") ? text : `oci://${text}`;
}

/** The kinds of sources that are servers, which can have additional secret slots. */
export const SERVER_KINDS: readonly SourceKind[] = ["npm", "pypi", "image", "mcp_url", "mcp_json"];
const TAKES_ARGS: readonly SourceKind[] = ["npm", "pypi", "image"];
const PREFIXED: readonly SourceKind[] = ["npm", "pypi", "image", "example"];
