/**
 * Checks a list of instruments, for the instrument host, plugins in other languages and modules in the gateway. The
 * result contains only the declared fields; an origin is not one of them.
 */

import type { JsonObject } from "../values/json.ts";
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

/** Throws a plain Error whose message is one clause with its remedy. */
export function checkInstruments(list: unknown): CheckedInstruments {
  if (list === undefined) throw new Error("it has no instruments after initialize; set `instruments` there");
  if (!Array.isArray(list)) throw new Error("its instruments are not a list");
  if (list.length > MAX_INSTRUMENTS) throw new Error(`it has more than ${MAX_INSTRUMENTS} instruments`);
  const seen = new Set<string>();
  const warnings: string[] = [];
  const instruments = list.map((value: unknown, index) => {
    const declared = checkInstrument(value, index);
    const { name, metadata } = declared;
    if (seen.has(name)) throw new Error(`it offers the instrument ${name} twice; give each its own name`);
    seen.add(name);
    const { category, sideEffects } = metadata;
    if ((category === "Network" || category === "Shell") && sideEffects.length === 0) {
      warnings.push(
        `The instrument ${name} is of category ${category} and lists no sideEffects; its risk may be understated.`,
      );
    }
    return declared;
  });
  return { instruments, warnings };
}

/** The provider that a module exports under `name`, an object or a class; or a description of the problem. */
export function findInstrumentProvider(
  exports: Record<string, unknown>,
  name: string,
): InstrumentProvider | string {
  const nested = isRecord(exports.default) ? exports.default[name] : undefined;
  const exported = exports[name] ?? nested;
  if (exported === undefined) return `the module exports no ${name}`;
  const isClass =
    typeof exported === "function" && isRecord(exported.prototype) && "initialize" in exported.prototype;
  const provider: unknown = isClass ? new (exported as unknown as new () => unknown)() : exported;
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
      `instrument ${index} is called ${show(name)}; use snake_case, at most 64 characters, such as hello_world`,
    );
  }
  const at = `the instrument ${name}`;
  if (!isRecord(metadata)) throw new Error(`${at} has no metadata`);
  if (metadata.name !== name) {
    throw new Error(`${at} has the name ${show(metadata.name)} in its metadata; both names must be the same`);
  }
  checkChoice(riskLevel, INSTRUMENT_RISKS, `${at}: riskLevel`);
  return {
    name,
    riskLevel,
    metadata: checkMetadata(metadata, at),
    securityRules: checkRules(securityRules, at),
  };
}

function checkMetadata(value: Record<string, unknown>, at: string): InstrumentDeclaration["metadata"] {
  const unknown = Object.keys(value).find((field) => !METADATA_FIELDS.includes(field));
  if (unknown !== undefined) throw new Error(`${at}: metadata.${unknown} is not a field of the metadata`);
  const { category, description, accessMode = "Shared", platform = "All" } = value;
  checkChoice(category, INSTRUMENT_CATEGORIES, `${at}: metadata.category`);
  checkChoice(accessMode, ACCESS_MODES, `${at}: metadata.accessMode`);
  checkChoice(platform, INSTRUMENT_PLATFORMS, `${at}: metadata.platform`);
  if (typeof description !== "string" || description === "" || description.length > 4_000) {
    throw new Error(`${at}: metadata.description must be a string of 1 to 4000 characters`);
  }
  const checked: InstrumentDeclaration["metadata"] = {
    name: value.name as string,
    category,
    description,
    accessMode,
    platform,
    sideEffects: checkTexts(value.sideEffects ?? [], `${at}: metadata.sideEffects`),
    keywords: checkTexts(value.keywords ?? [], `${at}: metadata.keywords`),
    ...checkSchema(value, "inputSchema", at),
    ...checkSchema(value, "outputSchema", at),
    ...checkTimeout(value, "defaultTimeoutMs", at),
    ...checkTimeout(value, "maxTimeoutMs", at),
  };
  const { defaultTimeoutMs, maxTimeoutMs } = checked;
  if (defaultTimeoutMs !== undefined && maxTimeoutMs !== undefined && defaultTimeoutMs > maxTimeoutMs) {
    throw new Error(`${at}: metadata.defaultTimeoutMs is larger than metadata.maxTimeoutMs`);
  }
  return checked;
}

/** An empty schema has no effect and is dropped. */
function checkSchema(
  value: Record<string, unknown>,
  field: "inputSchema" | "outputSchema",
  at: string,
): Pick<InstrumentMetadata, "inputSchema" | "outputSchema"> {
  const schema = value[field];
  if (schema === undefined || schema === null) return {};
  if (!isRecord(schema)) throw new Error(`${at}: metadata.${field} must be a JSON Schema, an object`);
  return Object.keys(schema).length === 0 ? {} : { [field]: schema as JsonObject };
}

function checkTimeout(
  value: Record<string, unknown>,
  field: "defaultTimeoutMs" | "maxTimeoutMs",
  at: string,
): Pick<InstrumentMetadata, "defaultTimeoutMs" | "maxTimeoutMs"> {
  const time = value[field];
  if (time === undefined || time === null) return {};
  if (!Number.isInteger(time) || (time as number) < 1 || (time as number) > MAX_TIMEOUT_MS) {
    throw new Error(`${at}: metadata.${field} must be milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
  }
  return { [field]: time as number };
}

function checkRules(value: unknown, at: string): InstrumentRule[] {
  if (!Array.isArray(value)) throw new Error(`${at}: securityRules is not a list`);
  return value.map((rule: unknown, index) => {
    const where = `${at}: securityRules[${index}]`;
    if (!isRecord(rule)) throw new Error(`${where} is not an object`);
    const unknown = Object.keys(rule).find((field) => !["match", "effect", "risk", "reason"].includes(field));
    if (unknown !== undefined) throw new Error(`${where}.${unknown} is not a field of a rule`);
    const { effect, match, reason, risk } = rule;
    if (effect !== "deny" && effect !== "raise") {
      throw new Error(`${where}.effect is ${show(effect)}; a plugin's rule can only "deny" or "raise"`);
    }
    if (typeof reason !== "string" || reason === "" || reason.length > 300) {
      throw new Error(`${where}.reason must say why, in at most 300 characters`);
    }
    if (effect === "raise") checkChoice(risk, INSTRUMENT_RISKS, `${where}.risk`);
    else if (risk !== undefined) throw new Error(`${where}.risk belongs to "raise" only`);
    return {
      effect,
      reason,
      ...(effect === "raise" ? { risk: risk as NonNullable<InstrumentRule["risk"]> } : {}),
      ...(match === undefined || match === null ? {} : { match: checkMatch(match, where) }),
    };
  });
}

function checkMatch(value: unknown, where: string): NonNullable<InstrumentRule["match"]> {
  const { pattern, pointer } = isRecord(value) ? value : {};
  if (typeof pointer !== "string" || pointer.length > 512 || !POINTER.test(pointer)) {
    throw new Error(`${where}.match.pointer must be a JSON Pointer, such as /path`);
  }
  if (typeof pattern !== "string" || pattern === "" || pattern.length > 512) {
    throw new Error(`${where}.match.pattern must be a regular expression of 1 to 512 characters`);
  }
  return { pointer, pattern };
}

function checkChoice<T extends string>(
  value: unknown,
  allowed: readonly T[],
  label: string,
): asserts value is T {
  if ((allowed as readonly unknown[]).includes(value)) return;
  throw new Error(`${label} is ${show(value)}; write one of ${allowed.join(", ")}`);
}

function checkTexts(value: unknown, label: string): string[] {
  if (
    Array.isArray(value) &&
    value.length <= 64 &&
    value.every((item) => typeof item === "string" && item.length <= 300)
  ) {
    return [...(value as string[])];
  }
  throw new Error(`${label} must be a list of at most 64 strings of up to 300 characters`);
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? "undefined").slice(0, 80);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
