/**
 * Derives how an instrument plugin is started from `providerClass` and `isolationMode`: an export of a module (in the
 * gateway, or for External in the ready-made host), a Java class of the archive (with its own main, or a provider for
 * the ready-made host), or a command. No shell is involved.
 */
import { readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { INSTRUMENT_MODULE_HOST, type IsolationMode, JAVA_HOST } from "@backplane/contract";
import type { TreeListing } from "../../tree/tree-listing.ts";
import { hasMain } from "./java-class.ts";

export interface HeftyStart {
  protocol: "hefty.jsonrpc" | "module.instrument";
  entrypoint: string[];
}

const MODULE = /^(?:\.\/)?([^#\s]+\.(?:js|mjs|cjs|ts|mts|cts))(?:#([A-Za-z_$][\w$]*))?$/;
const JAVA_CLASS = /^[A-Za-z_][\w]*(?:\.[A-Za-z_$][\w$]*)+$/;
const SHELL_CHARACTERS = /["'`$|&;<>()*?\\]/;

/** Returns a description of the problem if the plugin cannot be started. */
export async function resolveStart(
  providerClass: string,
  mode: IsolationMode,
  listing: TreeListing,
  tree: string,
): Promise<HeftyStart | string> {
  const text = providerClass.trim();
  const module = MODULE.exec(text);
  if (module !== null) return resolveModule(module, mode, listing);
  // A class runs as External in every mode; the definitions of its binding report that.
  if (JAVA_CLASS.test(text)) return await resolveJavaClass(text, listing, tree);
  if (mode !== "External") {
    return `providerClass is ${JSON.stringify(text)} and isolationMode is ${mode}: it names neither a module nor a Java class; write a module's export such as "./provider.js#HelloProvider", or set isolationMode to External and name a program that speaks the protocol`;
  }
  return resolveCommand(text, listing);
}

function resolveModule(
  match: RegExpExecArray,
  mode: IsolationMode,
  listing: TreeListing,
): HeftyStart | string {
  const file = posix.normalize(match[1] as string);
  if (file.startsWith("..") || !listing.files.some(({ path }) => path === file)) {
    return `providerClass names the module ${file}, which is not in the package; add the file or correct the path`;
  }
  const reference = `./${file}#${match[2] ?? "default"}`;
  return mode === "External"
    ? { protocol: "hefty.jsonrpc", entrypoint: [INSTRUMENT_MODULE_HOST, reference] }
    : { protocol: "module.instrument", entrypoint: ["node", reference] };
}

/** The archive is unpacked, so its root is the class path; `lib` contains the libraries of a plugin. */
async function resolveJavaClass(
  name: string,
  listing: TreeListing,
  tree: string,
): Promise<HeftyStart | string> {
  const file = `${name.replaceAll(".", "/")}.class`;
  if (!listing.files.some(({ path }) => path === file)) {
    return `providerClass names the class ${name}, but the archive does not contain ${file}`;
  }
  const main = hasMain(await readFile(join(tree, file)));
  if (main === null) return `providerClass names the class ${name}, but ${file} is not a Java class file`;
  const entrypoint = main ? ["java", "-cp", ".:lib/*", name] : [JAVA_HOST, name];
  return { protocol: "hefty.jsonrpc", entrypoint };
}

function resolveCommand(text: string, listing: TreeListing): HeftyStart | string {
  if (SHELL_CHARACTERS.test(text)) {
    return `providerClass is ${JSON.stringify(text)}; write a program and its arguments separated by spaces, since there is no shell`;
  }
  const entrypoint = text.split(/\s+/);
  const program = entrypoint[0] as string;
  const file = listing.files.find(({ path }) => path === posix.normalize(program));
  if (!program.includes("/")) {
    return file === undefined
      ? { protocol: "hefty.jsonrpc", entrypoint }
      : `providerClass names ${program}, a file of the package; write "./${program}"`;
  }
  if (file === undefined) return `providerClass names ${program}, which is not in the package`;
  if (file.mode !== "0755") {
    return `providerClass names ${program}, which is not executable; keep its mode when you pack it, or name its interpreter, such as "python3 ${program}"`;
  }
  return { protocol: "hefty.jsonrpc", entrypoint };
}
