/**
 * `module.tools`: a folder of tool files, loaded by our host program, which speaks vai.rpc.v1. The program is a
 * single file that is mounted read-only next to the package; an error in one tool file does not affect the
 * others. An isolated process serves one call, a worker many.
 */
import { createHash } from "node:crypto";
import {
  BackplaneError,
  DESCRIBE_TOOLS,
  INVOCATION_LIMITS,
  type Json,
  type JsonObject,
  type ManifestToolExport,
  type Permissions,
  type ToolFileDescription,
  type ToolFilesDescription,
  toolIdOf,
} from "@backplane/contract";
import type { Description } from "@backplane/ports";
import { type Dialect, NO_PERMISSIONS, type ProcessLink } from "../ports/dialect.ts";
import { INSIDE } from "../sandbox/plan.ts";
import { acceptVai, VaiSession } from "./vai-rpc.ts";

const HOST_INSIDE = "/sandbox/tool-host.mjs";
const MAX_TEXT = 4_000;
const MAX_CATEGORY = 64;

export const toolModule: Dialect = {
  protocol: "module.tools",
  lifetime: "pooled",
  unsupportedReason: (request) =>
    request.op === "tool.invoke"
      ? null
      : `Tool files support only tools, but ${request.export_id} was called with ${request.op}.`,
  async launch({ package: { package_id, version, runtime }, grant }, { folder, confined, programs }) {
    if (programs.tool_files === undefined) {
      throw new BackplaneError("launch_failed", "This installation has no host program for tool files.", {
        fix: "Build it: npm run build",
      });
    }
    const tool_files = programs.privateCopy?.(programs.tool_files) ?? programs.tool_files;
    const [program, source] = confined ? [HOST_INSIDE, INSIDE.plugin] : [tool_files, folder];
    return {
      // A tool on the host runs in the gateway's working directory, any other in the package folder.
      entrypoint: [
        "node",
        program,
        "serve",
        source,
        package_id,
        version,
        ...(grant.host === true ? [process.cwd()] : []),
      ],
      env: runtime.env,
      binds: [{ source: tool_files, target: HOST_INSIDE, writable: false }],
    };
  },
  connect: (link) => new ToolModuleSession(link),
};

class ToolModuleSession extends VaiSession {
  readonly #permissions: Permissions;

  constructor(link: ProcessLink) {
    super(link);
    this.#permissions = link.request?.package.runtime.permissions ?? NO_PERMISSIONS;
  }

  async describe(): Promise<Description> {
    const body = { export_id: DESCRIBE_TOOLS, context: {} };
    const answer = acceptVai(await this.host.request(DESCRIBE_TOOLS, "tool.invoke", body, () => {}));
    const output = (answer.result as JsonObject | null)?.structured_output;
    if (answer.status !== "succeeded" || output === undefined) {
      throw new BackplaneError(
        "malformed_response",
        answer.error?.message ?? "The host program did not describe the tool files.",
      );
    }
    return describeToolFiles(output as unknown as ToolFilesDescription, this.#permissions);
  }
}

/** Converts descriptions of tool files to exports. */
export function describeToolFiles(description: ToolFilesDescription, permissions: Permissions): Description {
  const schemas: Record<string, Json> = {};
  const exports = description.tools.map((tool) => {
    const path = `described/${createHash("sha256").update(JSON.stringify(tool.input_schema)).digest("hex")}.json`;
    schemas[path] = tool.input_schema;
    return toExport(tool, path, permissions);
  });
  const files = Object.fromEntries(description.tools.map(({ name, file }) => [toolIdOf(name), file]));
  return { exports, schemas, warnings: description.warnings, info: { files } };
}

function toExport(
  tool: ToolFileDescription,
  input_schema: string,
  permissions: Permissions,
): ManifestToolExport {
  const id = toolIdOf(tool.name);
  return {
    id,
    kind: "tool",
    ...(tool.description === "" ? {} : { description: clip(tool.description, MAX_TEXT) }),
    default_timeout_ms: INVOCATION_LIMITS.default_timeout_ms,
    permissions,
    tool: {
      // Authors declare the risk "low" for read-only tools. For other tools it is unknown what a repeated call does.
      effect_class: tool.risk === "low" ? "read_only" : "unknown",
      streaming: true,
      requires_approval: false,
      input_schema,
      risk: tool.risk,
      target: tool.target,
      ...(tool.category === null || tool.category === ""
        ? {}
        : { category: clip(tool.category, MAX_CATEGORY) }),
      ...(id === tool.name ? {} : { native_name: clip(tool.name, 256) }),
      ...(tool.load_error === null ? {} : { load_error: clip(tool.load_error, MAX_TEXT) }),
    },
  };
}

function clip(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length - 1)}…` : text;
}
