/** Maps the declarations of an instrument provider to exports of its package. */
import { hash } from "node:crypto";
import {
  type CheckedInstruments,
  canonicalJson,
  HEFTY_VERSION,
  INVOCATION_LIMITS,
  type InstrumentDeclaration,
  type InstrumentPlatform,
  type InstrumentRule,
  type Json,
  type JsonObject,
  type ManifestToolExport,
  type Permissions,
  RISK_OF_INSTRUMENT,
} from "@backplane/contract";
import type { Description, RunRequest } from "@backplane/ports";
import { NO_PERMISSIONS } from "../../ports/dialect.ts";

type RequestedPackage = RunRequest["package"];

const SYSTEMS: Record<InstrumentPlatform, string | null> = {
  Linux: "linux",
  MacOS: "darwin",
  Windows: "win32",
  All: null,
};

export function describeInstruments(
  { instruments, warnings }: CheckedInstruments,
  pack: RequestedPackage,
  system: string = process.platform,
): Description {
  const schemas: Record<string, Json> = {};
  const addSchema = (schema: JsonObject | undefined): string | undefined => {
    if (schema === undefined) return undefined;
    const path = `described/${hash("sha256", canonicalJson(schema), "hex")}.json`;
    schemas[path] = schema;
    return path;
  };
  const permissions = pack.runtime.permissions ?? NO_PERMISSIONS;
  const exports = instruments.map((instrument) => toExport(instrument, permissions, addSchema, system));
  const load_errors = exports.flatMap(({ tool }) => tool.load_error ?? []);
  const plugin_id = pluginIdOf(pack);
  return {
    exports,
    schemas,
    warnings: [...warnings, ...load_errors],
    info: {
      plugin_id,
      // Set by the host, whatever the instrument declares about itself.
      origin: `plugin:${plugin_id}`,
      isolation: pack.runtime.instrument?.isolation ?? "External",
      hefty_version: HEFTY_VERSION,
    },
  };
}

/** A package made for Backplane has no plugin id in this format, so the last part of its package id is used. */
export function pluginIdOf({ package_id, runtime }: RequestedPackage): string {
  return runtime.instrument?.plugin_id ?? package_id.slice(package_id.lastIndexOf("/") + 1);
}

function toExport(
  { metadata, name, riskLevel, securityRules }: InstrumentDeclaration,
  permissions: Permissions,
  addSchema: (schema: JsonObject | undefined) => string | undefined,
  system: string,
): ManifestToolExport {
  const { accessMode, category, defaultTimeoutMs, description, keywords, maxTimeoutMs, sideEffects } =
    metadata;
  const required_system = SYSTEMS[metadata.platform ?? "All"];
  const input_schema = addSchema(metadata.inputSchema);
  const output_schema = addSchema(metadata.outputSchema);
  const timeout_ms = defaultTimeoutMs ?? INVOCATION_LIMITS.default_timeout_ms;
  return {
    id: name,
    kind: "tool",
    description,
    default_timeout_ms: Math.min(timeout_ms, maxTimeoutMs ?? timeout_ms),
    ...(maxTimeoutMs === undefined ? {} : { max_timeout_ms: maxTimeoutMs }),
    ...(accessMode === "Exclusive" ? { max_concurrency: 1 } : {}),
    permissions,
    tool: {
      // Only a read-only instrument may run again after a crash without a person's approval.
      effect_class: riskLevel === "ReadOnly" ? "read_only" : "unknown",
      streaming: false,
      requires_approval: false,
      ...(input_schema === undefined ? {} : { input_schema }),
      ...(output_schema === undefined ? {} : { output_schema }),
      risk: RISK_OF_INSTRUMENT[riskLevel],
      category,
      keywords: [...keywords],
      side_effects: [...sideEffects],
      ...(securityRules.length === 0 ? {} : { rules: securityRules.map(toPolicyRule) }),
      ...(required_system === null || required_system === system
        ? {}
        : { load_error: `The instrument ${name} runs on ${metadata.platform} only.` }),
    },
  };
}

/** Converts a rule to the form of the policy, which merges it with its own rules. */
function toPolicyRule({ effect, match, reason, risk }: InstrumentRule): JsonObject {
  return {
    when: match === undefined ? [] : [{ pointer: match.pointer, matches: match.pattern }],
    action: effect,
    ...(risk === undefined ? {} : { risk: RISK_OF_INSTRUMENT[risk] }),
    reason,
  };
}
