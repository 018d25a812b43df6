/**
 * Finds the provider in an instrument module and checks the instruments of a plugin, whether it runs in the instrument
 * host, in a process of another language or in the gateway. The result contains only the fields of
 * InstrumentDeclaration, so an `origin` that a plugin sets is dropped.
 */

import { isRecord, type JsonObject } from "../values/json.ts";
import {
  ACCESS_MODES,
  INSTRUMENT_CATEGORIES,
  INSTRUMENT_PLATFORMS,
  INSTRUMENT_RISKS,
  type InstrumentDeclaration,
  type InstrumentMetadata,
  type InstrumentProvider,
  type InstrumentRule,
} from "./instrument.ts";

export interface CheckedInstruments {
  instruments: InstrumentDeclaration[];
  /** Declarations that are valid but look like mistakes. */
  warnings: string[];
}

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const POINTER = /^(\/([^~/]|~[01])*)*$/;
const MAX_INSTRUMENTS = 256;
const MAX_TIMEOUT_MS = 86_400_000;
const METADATA_FIELDS = [
  "name",
  "category",
  "description",
  "accessMode",
  "platform",
  "inputSchema",
  "outputSchema",
  "sideEffects",
  "defaultTimeoutMs",
  "maxTimeoutMs",
  "keywords",
];

/** Throws a plain Error whose message is a clause about the plugin. */
export function checkInstruments(list: unknown): CheckedInstruments {
  if (list === undefined)
    throw new Error("it has no instruments after initialize; set `instruments` in initialize");
  if (!Array.isArray(list)) throw new Error("its instruments are not a list");
  if (list.length > MAX_INSTRUMENTS) throw new Error(`it has more than ${MAX_INSTRUMENTS} instruments`);
  const names = new Set<string>();
  const warnings: string[] = [];
  const instruments = list.map((value: unknown, index) => {
    const declaration = checkInstrument(value, index);
    const { name, metadata } = declaration;
    if (names.has(name)) throw new Error(`it offers the instrument ${name} twice; give each its own name`);
    names.add(name);
    const { category, sideEffects } = metadata;
    if ((category === "Network" || category === "Shell") && sideEffects.length === 0) {
      warnings.push(
        `The instrument ${name} is of category ${category} and lists no sideEffects; its risk may be understated.`,
      );
    }
    return declaration;
  });
  return { instruments, warnings };
}

/** Returns the provider that a module exports under `name` as an object or a class, or a description of the problem. */
export function findInstrumentProvider(
  exports: Record<string, unknown>,
  name: string,
): InstrumentProvider | string {
  const nested = isRecord(exports.default) ? exports.default[name] : undefined;
  const exported = exports[name] ?? nested;
  if (exported === undefined) return `the module does not export ${name}`;
  const is_class =
    typeof exported === "function" && isRecord(exported.prototype) && "initialize" in exported.prototype;
  const provider: unknown = is_class ? new (exported as unknown as new () => unknown)() : exported;
  if (!isRecord(provider)) return `${name} is not an InstrumentProvider; export an object or a class`;
  if (typeof provider.initialize !== "function") return `${name} has no initialize(context)`;
  if (provider.shutdown !== undefined && typeof provider.shutdown !== "function") {
    return `shutdown of ${name} is not a function`;
  }
  return provider as unknown as InstrumentProvider;
}

function checkInstrument(value: unknown, index: number): InstrumentDeclaration {
  if (!isRecord(value)) throw new Error(`instrument ${index} is not an object`);
  const { name, riskLevel, metadata, securityRules = [] } = value;
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new Error(
      `instrument ${index} is called ${formatValue(name)}; use snake_case, at most 64 characters, such as hello_world`,
    );
  }
  const label = `the instrument ${name}`;
  if (!isRecord(metadata)) throw new Error(`${label} has no metadata`);
  if (metadata.name !== name) {
    throw new Error(
      `${label} has the name ${formatValue(metadata.name)} in its metadata; both names must be the same`,
    );
  }
  checkChoice(riskLevel, INSTRUMENT_RISKS, `${label}: riskLevel`);
  return {
    name,
    riskLevel,
    metadata: checkMetadata(metadata, label),
    securityRules: checkRules(securityRules, label),
  };
}

function checkMetadata(value: Record<string, unknown>, label: string): InstrumentDeclaration["metadata"] {
  const unknown = Object.keys(value).find((field) => !METADATA_FIELDS.includes(field));
  if (unknown !== undefined) throw new Error(`${label}: metadata.${unknown} is not a known field`);
  const { category, description, accessMode = "Shared", platform = "All" } = value;
  checkChoice(category, INSTRUMENT_CATEGORIES, `${label}: metadata.category`);
  checkChoice(accessMode, ACCESS_MODES, `${label}: metadata.accessMode`);
  checkChoice(platform, INSTRUMENT_PLATFORMS, `${label}: metadata.platform`);
  if (typeof description !== "string" || description === "" || description.length > 4_000) {
    throw new Error(`${label}: metadata.description must be a string of 1 to 4000 characters`);
  }
  const checked: InstrumentDeclaration["metadata"] = {
    name: value.name as string,
    category,
    description,
    accessMode,
    platform,
    sideEffects: checkStrings(value.sideEffects ?? [], `${label}: metadata.sideEffects`),
    keywords: checkStrings(value.keywords ?? [], `${label}: metadata.keywords`),
    ...checkSchema(value, "inputSchema", label),
    ...checkSchema(value, "outputSchema", label),
    ...checkTimeout(value, "defaultTimeoutMs", label),
    ...checkTimeout(value, "maxTimeoutMs", label),
  };
  const { defaultTimeoutMs, maxTimeoutMs } = checked;
  if (defaultTimeoutMs !== undefined && maxTimeoutMs !== undefined && defaultTimeoutMs > maxTimeoutMs) {
    throw new Error(`${label}: metadata.defaultTimeoutMs is larger than metadata.maxTimeoutMs`);
  }
  return checked;
}

/** An empty schema has no effect and is dropped. */
function checkSchema(
  value: Record<string, unknown>,
  field: "inputSchema" | "outputSchema",
  label: string,
): Pick<InstrumentMetadata, "inputSchema" | "outputSchema"> {
  const schema = value[field];
  if (schema === undefined || schema === null) return {};
  if (!isRecord(schema)) throw new Error(`${label}: metadata.${field} must be a JSON Schema object`);
  return Object.keys(schema).length === 0 ? {} : { [field]: schema as JsonObject };
}

function checkTimeout(
  value: Record<string, unknown>,
  field: "defaultTimeoutMs" | "maxTimeoutMs",
  label: string,
): Pick<InstrumentMetadata, "defaultTimeoutMs" | "maxTimeoutMs"> {
  const timeout = value[field];
  if (timeout === undefined || timeout === null) return {};
  if (!Number.isInteger(timeout) || (timeout as number) < 1 || (timeout as number) > MAX_TIMEOUT_MS) {
    throw new Error(
      `${label}: metadata.${field} must be a number of milliseconds from 1 to ${MAX_TIMEOUT_MS}`,
    );
  }
  return { [field]: timeout as number };
}

function checkRules(value: unknown, label: string): InstrumentRule[] {
  if (!Array.isArray(value)) throw new Error(`${label}: securityRules is not a list`);
  return value.map((rule: unknown, index) => {
    const rule_label = `${label}: securityRules[${index}]`;
    if (!isRecord(rule)) throw new Error(`${rule_label} is not an object`);
    const unknown = Object.keys(rule).find((field) => !["match", "effect", "risk", "reason"].includes(field));
    if (unknown !== undefined) throw new Error(`${rule_label}.${unknown} is not a known field`);
    const { effect, match, reason, risk } = rule;
    if (effect !== "deny" && effect !== "raise") {
      throw new Error(
        `${rule_label}.effect is ${formatValue(effect)}; a plugin's rule can only "deny" or "raise"`,
      );
    }
    if (typeof reason !== "string" || reason === "" || reason.length > 300) {
      throw new Error(`${rule_label}.reason must be a string of 1 to 300 characters`);
    }
    if (effect === "raise") checkChoice(risk, INSTRUMENT_RISKS, `${rule_label}.risk`);
    else if (risk !== undefined)
      throw new Error(`${rule_label}.risk is allowed only with the effect "raise"`);
    return {
      effect,
      reason,
      ...(effect === "raise" ? { risk: risk as NonNullable<InstrumentRule["risk"]> } : {}),
      ...(match === undefined || match === null ? {} : { match: checkMatch(match, rule_label) }),
    };
  });
}

function checkMatch(value: unknown, label: string): NonNullable<InstrumentRule["match"]> {
  const { pattern, pointer } = isRecord(value) ? value : {};
  if (typeof pointer !== "string" || pointer.length > 512 || !POINTER.test(pointer)) {
    throw new Error(`${label}.match.pointer must be a JSON Pointer, such as /path`);
  }
  if (typeof pattern !== "string" || pattern === "" || pattern.length > 512) {
    throw new Error(`${label}.match.pattern must be a regular expression of 1 to 512 characters`);
  }
  return { pointer, pattern };
}

function checkChoice<T extends string>(
  value: unknown,
  allowed: readonly T[],
  label: string,
): asserts value is T {
  if ((allowed as readonly unknown[]).includes(value)) return;
  throw new Error(`${label} is ${formatValue(value)}; write one of ${allowed.join(", ")}`);
}

function checkStrings(value: unknown, label: string): string[] {
  if (
    Array.isArray(value) &&
    value.length <= 64 &&
    value.every((item) => typeof item === "string" && item.length <= 300)
  ) {
    return [...(value as string[])];
  }
  throw new Error(`${label} must be a list of at most 64 strings of up to 300 characters`);
}

function formatValue(value: unknown): string {
  return (JSON.stringify(value) ?? "undefined").slice(0, 80);
}
