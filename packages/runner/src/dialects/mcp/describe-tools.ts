/**
 * Converts `tools/list` to exports. All pages are requested. A tool that cannot be used here is left out with a
 * warning. Annotations of the server are kept as hints and never trusted.
 */
import { hash } from "node:crypto";
import {
  BackplaneError,
  boundServerName,
  isObject,
  type Json,
  type JsonObject,
  type ManifestToolExport,
  plainName,
} from "@backplane/contract";
import type { Description } from "@backplane/ports";
import { type ParamHeaders, readParamHeaders } from "./param-headers.ts";
import type { Agreement } from "./revisions.ts";

const MAX_PAGES = 200;
const MAX_TOOLS = 2_000;
/** The limit for all tools together, as JSON text. */
const MAX_CHARS = 16_000_000;
const MAX_WARNINGS = 100;
const DESCRIPTION_CHARS = 4_000;
const NAME_CHARS = 256;
const TOOL_ID_CHARS = 64;
const DIGEST_CHARS = 8;

interface NamedServer {
  package_id: string;
  /** The configuration of its binding. */
  config: JsonObject;
}

export type SendRequest = (method: string, params: JsonObject) => Promise<Json>;

export async function describeTools(
  server: NamedServer,
  agreement: Agreement,
  permissions: ManifestToolExport["permissions"],
  /** Whether arguments can also be sent as headers. */
  with_headers: boolean,
  sendRequest: SendRequest,
): Promise<Description> {
  const warnings: string[] = [];
  const listed = "tools" in agreement.capabilities ? await listAllTools(sendRequest, warnings) : [];
  const headers = new Map<Tool, ParamHeaders>();
  const tools = listed.filter((tool) => {
    const param_headers = with_headers ? readParamHeaders(tool.inputSchema) : [];
    if (typeof param_headers !== "string") headers.set(tool, param_headers);
    else if (warnings.length < MAX_WARNINGS)
      warnings.push(
        `The tool ${JSON.stringify(tool.name.slice(0, 80))} is left out: ${param_headers.slice(0, 300)}.`,
      );
    return typeof param_headers !== "string";
  });
  const ids = chooseToolIds(
    server,
    tools.map((tool) => tool.name),
  );
  const schemas: Record<string, Json> = {};
  const addSchema = (schema: JsonObject) => {
    const text = JSON.stringify(schema);
    const path = `described/${hash("sha256", text, "hex")}.json`;
    schemas[path] = schema;
    return path;
  };
  const exports = tools.map((tool, index) =>
    toExport(tool, ids[index]!, permissions, headers.get(tool)!, addSchema),
  );
  return { exports, schemas, warnings, info: infoOf(agreement) };
}

interface Tool extends JsonObject {
  name: string;
  inputSchema: JsonObject;
}

async function listAllTools(sendRequest: SendRequest, warnings: string[]): Promise<Tool[]> {
  const tools: Tool[] = [];
  const names = new Set<string>();
  let size = 0;
  let cursor: Json | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const result = await sendRequest("tools/list", cursor === undefined ? {} : { cursor });
    if (!isObject(result) || !Array.isArray(result.tools)) {
      throw new BackplaneError(
        "malformed_response",
        "The MCP server's answer to tools/list does not contain a list of tools.",
      );
    }
    for (const tool of result.tools) {
      const problem = findToolProblem(tool, names);
      if (problem === null) tools.push(tool as Tool);
      else if (warnings.length < MAX_WARNINGS) warnings.push(problem);
    }
    size += JSON.stringify(result).length;
    if (size > MAX_CHARS) {
      throw new BackplaneError(
        "frame_too_large",
        `The MCP server's tool descriptions exceed ${MAX_CHARS} characters.`,
      );
    }
    if (tools.length > MAX_TOOLS) {
      warnings.push(`The server has more than ${MAX_TOOLS} tools; the others are left out.`);
      return tools.slice(0, MAX_TOOLS);
    }
    // A repeated cursor would return the same page again and again.
    const next = result.nextCursor;
    if (typeof next !== "string" || next === cursor) return tools;
    cursor = next;
  }
  warnings.push(`The tool list has more than ${MAX_PAGES} pages; the others are left out.`);
  return tools;
}

function findToolProblem(tool: Json, names: Set<string>): string | null {
  if (!isObject(tool) || typeof tool.name !== "string" || tool.name === "")
    return "A tool without a name is left out.";
  const name_text = JSON.stringify(tool.name.slice(0, 80));
  if (tool.name.length > NAME_CHARS)
    return `The tool ${name_text} is left out because its name is longer than ${NAME_CHARS} characters.`;
  if (names.has(tool.name)) return `The tool ${name_text} is listed twice; the first entry is used.`;
  if (!isObject(tool.inputSchema))
    return `The tool ${name_text} is left out because it does not have an inputSchema.`;
  names.add(tool.name);
  return null;
}

function toExport(
  tool: Tool,
  id: string,
  permissions: ManifestToolExport["permissions"],
  param_headers: ParamHeaders,
  addSchema: (schema: JsonObject) => string,
): ManifestToolExport {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  const hints = isObject(annotations) ? annotations : {};
  const title_text = typeof title === "string" ? title : hints.title;
  return {
    id,
    kind: "tool",
    ...(typeof title_text === "string" && title_text !== ""
      ? { display_name: title_text.slice(0, 120) }
      : {}),
    ...(typeof description === "string" ? { description: description.slice(0, DESCRIPTION_CHARS) } : {}),
    default_timeout_ms: 60_000,
    permissions,
    tool: {
      effect_class: "unknown",
      streaming: true,
      requires_approval: false,
      input_schema: addSchema(inputSchema),
      ...(isObject(outputSchema) ? { output_schema: addSchema(outputSchema) } : {}),
      ...(Object.keys(hints).length === 0 ? {} : { hints }),
      native_name: name,
      ...(param_headers.length === 0 ? {} : { param_headers }),
    },
  };
}

function infoOf({ revision, server, capabilities, instructions }: Agreement): JsonObject {
  return {
    protocol_version: revision,
    server,
    capabilities,
    ...(instructions === null ? {} : { instructions: instructions.slice(0, DESCRIPTION_CHARS) }),
  };
}

/**
 * Catalog names, in the order of `names`: `mcp_<server>_<tool>`, at most 64 characters that every model accepts. Two
 * names that would become the same id, and names that are too long, end with a digest of the tool's original name.
 */
function chooseToolIds(server: NamedServer, names: readonly string[]): string[] {
  const server_name = boundServerName(server);
  const plain = names.map(plainName);
  const short = plain.map((name) => withoutServerName(server, server_name, name));
  // A shorter name must not take the name of another tool.
  const candidates = short.map((short_name, index) => {
    const is_taken = short.some((other, other_index) => other_index !== index && other === short_name);
    return `mcp_${server_name}_${is_taken ? plain[index] : short_name}`;
  });
  const counts = new Map<string, number>();
  for (const id of candidates) counts.set(id, (counts.get(id) ?? 0) + 1);
  return candidates.map((id, index) =>
    id.length <= TOOL_ID_CHARS && counts.get(id) === 1 ? id : withDigest(id, names[index]!),
  );
}

/** Removes the server's name from the start of a tool's name, but only if the binding has a name of its own. */
function withoutServerName({ config }: NamedServer, server: string, name: string): string {
  if (typeof config.name !== "string") return name;
  const start = name.slice(0, server.length + 1).toLowerCase();
  const repeats = start === `${server.toLowerCase()}_` || start === `${server.toLowerCase()}-`;
  return repeats && name.length > start.length ? name.slice(start.length) : name;
}

function withDigest(id: string, name: string): string {
  return `${id.slice(0, TOOL_ID_CHARS - DIGEST_CHARS - 1)}_${hash("sha256", name, "hex").slice(0, DIGEST_CHARS)}`;
}
