/** The configuration of a container image, in which its author describes how it is started. */
import { BackplaneError, isObject } from "@backplane/contract";

export interface ImageConfig {
  os: string;
  architecture: string;
  entrypoint: string[];
  cmd: string[];
  env: Record<string, string>;
  workdir: string;
  /** As `User` names it, with or without a group; null for root. */
  user: string | null;
  labels: Record<string, string>;
  /** `sha256:…` of each layer without compression. */
  diff_ids: string[];
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_WORDS = 60;
const MAX_USER = 64;

export function readImageConfig(bytes: Uint8Array, shown: string): ImageConfig {
  const fail = (problem: string): never => {
    throw new BackplaneError("package.invalid", `The configuration of ${shown} is not valid: ${problem}.`);
  };
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return fail("it is not JSON");
  }
  if (!isObject(json)) return fail("it is not an object");
  const { os, architecture, config, rootfs } = json as Record<string, unknown>;
  if (typeof os !== "string" || typeof architecture !== "string") return fail("it names no platform");
  const own = isObject(config) ? (config as Record<string, unknown>) : {};
  const words = (value: unknown, field: string): string[] => {
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value) || value.length > MAX_WORDS || !value.every((item) => typeof item === "string"))
      return fail(`${field} is not a list of at most ${MAX_WORDS} strings`);
    return value as string[];
  };
  const diff_ids = words(
    isObject(rootfs) ? (rootfs as Record<string, unknown>).diff_ids : null,
    "rootfs.diff_ids",
  );
  const workdir = typeof own.WorkingDir === "string" && own.WorkingDir !== "" ? own.WorkingDir : "/";
  if (!workdir.startsWith("/") || /\p{Cc}/u.test(workdir) || workdir.split("/").includes(".."))
    return fail("WorkingDir is not an absolute path");
  const labels = isObject(own.Labels) ? Object.entries(own.Labels as Record<string, unknown>) : [];
  return {
    os,
    architecture,
    entrypoint: words(own.Entrypoint, "Entrypoint"),
    cmd: words(own.Cmd, "Cmd"),
    env: variablesOf(words(own.Env, "Env")),
    workdir,
    user: userOf(own.User),
    labels: Object.fromEntries(
      labels.filter((label): label is [string, string] => typeof label[1] === "string"),
    ),
    diff_ids,
  };
}

function userOf(value: unknown): string | null {
  if (typeof value !== "string" || /^(?:root|0)?(?::|$)/.test(value)) return null;
  return value.slice(0, MAX_USER);
}

/** Drops variables whose names a shell could not set. */
function variablesOf(lines: readonly string[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of lines) {
    const equals = line.indexOf("=");
    const [name, value] = [line.slice(0, equals), line.slice(equals + 1)];
    if (equals > 0 && VARIABLE.test(name) && value.length <= 4_096 && !value.includes("\0"))
      variables[name] = value;
  }
  return variables;
}
