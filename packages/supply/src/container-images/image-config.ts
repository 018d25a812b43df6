/** The configuration of a container image, in which the author describes how to start the image. */
import { BackplaneError, isObject } from "@backplane/contract";

export interface ImageConfig {
  os: string;
  architecture: string;
  entrypoint: string[];
  cmd: string[];
  env: Record<string, string>;
  workdir: string;
  /** The value of `User`, with or without a group; null for root. */
  user: string | null;
  labels: Record<string, string>;
  /** `sha256:…` of each layer without compression. */
  diff_ids: string[];
}

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MAX_STRINGS = 60;
const MAX_USER = 64;

export function readImageConfig(bytes: Uint8Array, image_name: string): ImageConfig {
  const fail = (problem: string): never => {
    throw new BackplaneError(
      "package.invalid",
      `The configuration of ${image_name} is not valid: ${problem}.`,
    );
  };
  let json: unknown;
  try {
    json = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch {
    return fail("it is not JSON");
  }
  if (!isObject(json)) return fail("it is not an object");
  const { os, architecture, config, rootfs } = json as Record<string, unknown>;
  if (typeof os !== "string" || typeof architecture !== "string") return fail("it specifies no platform");
  const settings = isObject(config) ? (config as Record<string, unknown>) : {};
  const readStrings = (value: unknown, field: string): string[] => {
    if (value === undefined || value === null) return [];
    if (
      !Array.isArray(value) ||
      value.length > MAX_STRINGS ||
      !value.every((item) => typeof item === "string")
    )
      return fail(`${field} is not a list of at most ${MAX_STRINGS} strings`);
    return value as string[];
  };
  const diff_ids = readStrings(
    isObject(rootfs) ? (rootfs as Record<string, unknown>).diff_ids : null,
    "rootfs.diff_ids",
  );
  const workdir =
    typeof settings.WorkingDir === "string" && settings.WorkingDir !== "" ? settings.WorkingDir : "/";
  if (!workdir.startsWith("/") || /\p{Cc}/u.test(workdir) || workdir.split("/").includes(".."))
    return fail('WorkingDir is not an absolute path without ".." and control characters');
  const labels = isObject(settings.Labels) ? Object.entries(settings.Labels as Record<string, unknown>) : [];
  return {
    os,
    architecture,
    entrypoint: readStrings(settings.Entrypoint, "Entrypoint"),
    cmd: readStrings(settings.Cmd, "Cmd"),
    env: parseVariables(readStrings(settings.Env, "Env")),
    workdir,
    user: parseUser(settings.User),
    labels: Object.fromEntries(
      labels.filter((label): label is [string, string] => typeof label[1] === "string"),
    ),
    diff_ids,
  };
}

function parseUser(value: unknown): string | null {
  if (typeof value !== "string" || /^(?:root|0)?(?::|$)/.test(value)) return null;
  return value.slice(0, MAX_USER);
}

/** Drops variables whose name a shell could not set or whose value is too long or contains a NUL. */
function parseVariables(lines: readonly string[]): Record<string, string> {
  const variables: Record<string, string> = {};
  for (const line of lines) {
    const equals = line.indexOf("=");
    const [name, value] = [line.slice(0, equals), line.slice(equals + 1)];
    if (equals > 0 && VARIABLE.test(name) && value.length <= 4_096 && !value.includes("\0"))
      variables[name] = value;
  }
  return variables;
}
