/**
 * Answers the gateway for one package of tool files: describes the package and calls its tools. The first call to a
 * tool imports the tool's own file only; a tool whose name differs from its file name is found by describing all files.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import {
  DESCRIBE_TOOLS,
  isToolFile,
  TOOL_DESCRIBE_MS,
  TOOL_IMPORT_MS,
  type ToolFileDescription,
  type ToolFilesDescription,
  toolIdOf,
  toolNameOf,
} from "@backplane/contract";
import type { VaiCall, VaiReply } from "@backplane/wire";
import { failureReply } from "../../outcome.ts";
import { describeFiles } from "./describe-files.ts";
import { executeToolFile } from "./execute-tool-file.ts";
import { createToolFileLoader } from "./load-tool-file.ts";
import type { ToolFile } from "./tool-definition.ts";

export interface ToolFilesOptions {
  /** The folder of the package. */
  folder: string;
  /** The command that runs `reportFiles`; the file names are appended. */
  command: readonly string[];
  import_ms?: number;
}

export function serveToolFiles(options: ToolFilesOptions): (call: VaiCall) => Promise<VaiReply> {
  const { folder, command, import_ms = TOOL_IMPORT_MS } = options;
  const files = findToolFiles(folder);
  const load = createToolFileLoader(folder);
  let described: Promise<ToolFileDescription[]> | undefined;
  const describe = () => {
    described ??= describeFiles(files, { command, import_ms, total_ms: TOOL_DESCRIBE_MS });
    return described;
  };

  /** Finds a tool by its id in the catalog. Rethrows errors of the import. */
  async function find(id: string): Promise<ToolFile | null> {
    for (const file of files.filter((name) => toolIdOf(toolNameOf(name)) === id)) {
      const tool = await withinImportTime(load(file), file, import_ms);
      if (toolIdOf(tool.description.name) === id) return tool;
    }
    const described_tool = withoutRepeats(await describe()).tools.find((tool) => toolIdOf(tool.name) === id);
    if (described_tool === undefined) return null;
    if (described_tool.load_error !== null) throw new Error(described_tool.load_error);
    return await load(described_tool.file);
  }

  return async (call) => {
    const name = call.body.export_id;
    if (call.op !== "tool.invoke")
      return failureReply("failed", "A package of tool files offers only tools.");
    if (name === DESCRIBE_TOOLS) return descriptionReply(withoutRepeats(await describe()));
    let tool: ToolFile | null;
    try {
      tool = await find(name);
    } catch (error) {
      return failureReply("failed", error instanceof Error ? error.message : String(error));
    }
    if (tool === null) return failureReply("failed", `There is no tool file named ${name}.`);
    return await executeToolFile(tool, call);
  };
}

/** If two files have the same tool name, the first keeps it. */
function withoutRepeats(all: readonly ToolFileDescription[]): ToolFilesDescription {
  const tools = new Map<string, ToolFileDescription>();
  const warnings: string[] = [];
  for (const tool of all) {
    const id = toolIdOf(tool.name);
    const first = tools.get(id);
    if (first === undefined) tools.set(id, tool);
    else warnings.push(`${tool.file} is left out: ${first.file} already has the name ${tool.name}.`);
  }
  return { tools: [...tools.values()], warnings };
}

function descriptionReply(description: ToolFilesDescription): VaiReply {
  return {
    status: "succeeded",
    result: { content: [], structured_output: description, is_error: false, retryable: false },
  };
}

async function withinImportTime<T>(loading: Promise<T>, file: string, import_ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    const reason = `${file}: its import did not finish within ${import_ms / 1000} s.`;
    timer = setTimeout(() => reject(new Error(reason)), import_ms);
  });
  return await Promise.race([loading, timeout]).finally(() => clearTimeout(timer));
}

/** Returns the tool files of a package, as paths inside the package, in a stable order. */
function findToolFiles(folder: string): string[] {
  return readdirSync(join(folder, "tools"), { withFileTypes: true })
    .filter((entry) => entry.isFile() && isToolFile(entry.name))
    .map((entry) => `tools/${entry.name}`)
    .sort();
}
