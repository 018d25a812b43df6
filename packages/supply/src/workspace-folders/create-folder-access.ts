/** Trusted folders on the disk: their content, their changes, and the list of them. */
import { hash } from "node:crypto";
import { lstat, readFile, realpath, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { BackplaneError, type WorkspaceFolder } from "@backplane/contract";
import type { FolderAccess } from "@backplane/ports";
import { AGENT_PLUGIN_FILE } from "../import/agent-plugin/read-agent-plugin.ts";
import { FORMATS } from "../import/formats/formats.ts";
import { explainNestedTools, toolFiles } from "../import/formats/tool-files.ts";
import { isAgentPlugin, readListedText } from "../import/open-content.ts";
import { TOOLS_FOLDER } from "../import/open-package-source.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { surveyFolder } from "../pack/survey-folder.ts";
import type { TreeListing } from "../tree/tree-listing.ts";
import { readFolderList, writeFolderList } from "./folder-list.ts";
import { watchFolder } from "./watch-folder.ts";

const MAX_TEXT_BYTES = 256 * 1024;

export function createFolderAccess(list_file: string): FolderAccess {
  return {
    async resolve(path) {
      if (!isAbsolute(path)) throw notFound(`${path} is not an absolute path`);
      const real = await realpath(path).catch(() => null);
      if (real === null || !(await isFolder(real))) throw notFound(`There is no folder ${path}`);
      return real;
    },
    async survey(path, kind) {
      const listing = await survey(path, kind);
      const files = listing.files.map(({ path: name, size, sha256 }) => ({ path: name, size, sha256 }));
      const content = { digest: listing.digest, files };
      if (kind === "plugin" && (await isOtherPlugin(path, listing))) return { ...content, tool_files: false };
      if (toolFiles.recognizes(listing)) return { ...content, tool_files: true };
      const nested_tools = explainNestedTools(listing);
      if (nested_tools !== null) throw notFound(`${path} ${nested_tools}`);
      throw notFound(
        kind === "plugin"
          ? `${path} contains neither ${MANIFEST_FILE}, nor tools/*.ts or .js, nor an instrument plugin or an Agent Plugin`
          : `${path} contains no tools/*.ts or .js`,
      );
    },
    async readText(path, file, sha256) {
      const info = await lstat(join(path, file)).catch(() => null);
      if (info === null || !info.isFile() || info.size > MAX_TEXT_BYTES) return null;
      const bytes = await readFile(join(path, file));
      // The text that is reviewed must be the text that will be trusted.
      if (sha256 !== undefined && hash("sha256", bytes, "hex") !== sha256)
        throw new BackplaneError("workspace.changed");
      return bytes.includes(0) ? null : bytes.toString("utf8");
    },
    watch: (path, kind, onChange) =>
      watchFolder(path, kind === "workspace" ? [TOOLS_FOLDER] : null, onChange),
    readList: () => readFolderList(list_file),
    writeList: (folders) => writeFolderList(list_file, folders),
  };
}

/** Whether the folder is a package with a manifest, an instrument plugin or an Agent Plugins folder. */
async function isOtherPlugin(path: string, listing: TreeListing): Promise<boolean> {
  if (FORMATS.some((format) => format !== toolFiles && format.recognizes(listing))) return true;
  return isAgentPlugin(await readListedText(path, listing, AGENT_PLUGIN_FILE));
}

async function survey(path: string, kind: WorkspaceFolder["kind"]) {
  try {
    return await surveyFolder(path, kind === "workspace" ? TOOLS_FOLDER : "");
  } catch (error) {
    if (!["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    if (!(await isFolder(path))) throw notFound(`There is no folder ${path}`);
    if (kind === "workspace" && !(await isFolder(join(path, TOOLS_FOLDER))))
      throw notFound(`${path} contains no tools folder`);
    throw new BackplaneError("workspace.changed", `A file in ${path} was removed while it was being read.`, {
      cause: error,
    });
  }
}

async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then(
    (info) => info.isDirectory(),
    () => false,
  );
}

function notFound(message: string): BackplaneError {
  return new BackplaneError("workspace.not_found", `${message}.`);
}
