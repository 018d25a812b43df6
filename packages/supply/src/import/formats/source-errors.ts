/** Errors for a source that is not a package: what was expected, what was found instead, and what to do. */
import { BackplaneError, isToolFile } from "@backplane/contract";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import { AGENT_PLUGIN_FILE, AGENT_PLUGIN_SCHEMA } from "../agent-plugin/read-agent-plugin.ts";

export function invalidSource(message: string, fix?: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${message}.`, fix === undefined ? {} : { fix });
}

/** `names` are the names at the top level of the source. */
export function missingManifest(where: string, names: readonly string[]): BackplaneError {
  return invalidSource(`${where} contains no ${MANIFEST_FILE}; ${describeContent(names)}`, likelyFix(names));
}

/** Guesses the author's intention; undefined if the default fix, which lists the formats, applies. */
function likelyFix(names: readonly string[]): string | undefined {
  if (names.includes(AGENT_PLUGIN_FILE)) {
    return `Is it an Agent Plugins folder? Its ${AGENT_PLUGIN_FILE} needs "$schema": "${AGENT_PLUGIN_SCHEMA}"; then: backplane plugin install FOLDER`;
  }
  if (names.some(isToolFile))
    return "Tool files belong in a folder tools/; specify the folder that contains it.";
  return undefined;
}

function describeContent(names: readonly string[]): string {
  if (names.length === 0) return "it is empty";
  const listed = [...names].sort().slice(0, 8);
  return `found instead: ${listed.join(", ")}${names.length > listed.length ? ", …" : ""}`;
}
