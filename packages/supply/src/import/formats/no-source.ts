/** What is said of a source that is no package: what was looked for, what is there instead, and what to do then. */
import { BackplaneError, isToolFile } from "@backplane/contract";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import { AGENT_PLUGIN_FILE, AGENT_PLUGIN_SCHEMA } from "../agent-plugin/read-agent-plugin.ts";

export function noSource(message: string, fix?: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${message}.`, fix === undefined ? {} : { fix });
}

/** `names`: what lies at the top of it. */
export function noManifest(where: string, names: readonly string[]): BackplaneError {
  return noSource(`${where} holds no ${MANIFEST_FILE}; ${instead(names)}`, likely(names));
}

/** What the author probably meant; undefined leaves the list of all formats. */
function likely(names: readonly string[]): string | undefined {
  if (names.includes(AGENT_PLUGIN_FILE)) {
    return `Is it an Agent Plugins folder? Its ${AGENT_PLUGIN_FILE} needs "$schema": "${AGENT_PLUGIN_SCHEMA}"; then: backplane plugin install FOLDER`;
  }
  if (names.some(isToolFile)) return "Tool files lie in a folder tools/; name the folder that holds it.";
  return undefined;
}

function instead(names: readonly string[]): string {
  if (names.length === 0) return "it is empty";
  const shown = [...names].sort().slice(0, 8);
  return `found instead: ${shown.join(", ")}${names.length > shown.length ? ", …" : ""}`;
}
