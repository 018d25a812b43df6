/**
 * Accepts the allowed sources: a package of the npm registry by name, or a path on this machine. Everything else that
 * npm would accept (URLs, git, aliases, options) is refused before npm is called (plug.install).
 */
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { BackplaneError } from "@backplane/contract";

export type InstallSource =
  | { kind: "npm"; name: string; spec: string }
  /** A folder, or a packed archive (.tgz); absolute. */
  | { kind: "path"; path: string };

const MAX_LENGTH = 1_024;
const MAX_NAME_LENGTH = 214;
const NAME = /^(?:@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,127}$/;

export function validateInstallSource(source: string): InstallSource {
  if (typeof source !== "string" || source.trim() === "") throw refused("The source is empty.");
  if (source.length > MAX_LENGTH) throw refused(`The source is longer than ${MAX_LENGTH} characters.`);
  if (hasControl(source)) throw refused("The source contains a line break or another control character.");
  if (source !== source.trim()) throw refused("The source begins or ends with a space.");
  if (source.startsWith("-")) throw refused(`${quote(source)} is an option, not a source.`);
  if (isPath(source)) return { kind: "path", path: toAbsolutePath(source) };
  const scheme = /^[A-Za-z][A-Za-z0-9+.-]*:/.exec(source)?.[0];
  if (scheme !== undefined) throw refused(`Plugins cannot be installed from ${quote(scheme)} sources.`);
  return npmSource(source);
}

function npmSource(source: string): InstallSource {
  const at = source.lastIndexOf("@");
  const name = at > 0 ? source.slice(0, at) : source;
  const version = at > 0 ? source.slice(at + 1) : undefined;
  if (!isPackageName(name)) {
    throw refused(`${quote(source)} is not the name of an npm package.`);
  }
  // Explicit, because without a version npm keeps an older version that is already installed.
  if (version === undefined) return { kind: "npm", name, spec: `${name}@latest` };
  if (!VERSION.test(version)) throw refused(`${quote(version)} is not a version or tag of ${name}.`);
  return { kind: "npm", name, spec: `${name}@${version}` };
}

export function isPackageName(name: string): boolean {
  return NAME.test(name) && name.length <= MAX_NAME_LENGTH && name !== "node_modules";
}

/** A path must begin with `/`, `./`, `../` or `~`, because npm would read `owner/name` as a repository. */
function isPath(source: string): boolean {
  return isAbsolute(source) || /^(?:\.{1,2}|~)(?:[/\\]|$)/.test(source);
}

function toAbsolutePath(source: string): string {
  return source.startsWith("~") ? join(homedir(), source.slice(1)) : resolve(source);
}

/** Includes line and paragraph separators and bidirectional marks, which could deceive the reader of a confirmation. */
function hasControl(text: string): boolean {
  return /[\p{Cc}\p{Cf}\u2028\u2029]/u.test(text);
}

function refused(message: string): BackplaneError {
  return new BackplaneError("plugin.source_invalid", message);
}

function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
