/** Only the official SDKs send requests to vendors (llm.sdk-only): provider plugins use no other network API. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { verifies } from "./support/verifies.ts";

const SDKS: Record<string, string> = { "llm-openai": "openai", "llm-anthropic": "@anthropic-ai/sdk" };
/** Built-in modules without network access. */
const HARMLESS = new Set(["node:crypto", "node:buffer", "node:util", "node:timers", "node:timers/promises"]);
const RAW_USE =
  /\b(?:fetch|WebSocket|EventSource|XMLHttpRequest|undici|axios|require|createRequire|eval|Function|globalThis|process)\b/g;
const IMPORT =
  /(?:^|[;\s])(?:import|export)\b[^;"'`]*?\bfrom\s*["']([^"']+)["']|(?:^|[;\s])import\s*["']([^"']+)["']/g;
const DYNAMIC_IMPORT = /\bimport\s*\(\s*([^)]*?)\s*\)/g;

/** The violations in the source of a plugin, one line each. */
function findViolations(plugin: string, source: string): string[] {
  const code = source.replaceAll(/\/\*[\s\S]*?\*\//g, " ").replaceAll(/(^|[\s;])\/\/.*$/gm, "$1");
  const violations: string[] = [];
  for (const [, from, bare] of code.matchAll(IMPORT)) {
    const specifier = from ?? bare ?? "";
    if (!isAllowed(plugin, specifier)) violations.push(`imports ${specifier}`);
  }
  for (const [, argument = ""] of code.matchAll(DYNAMIC_IMPORT)) {
    const literal = /^["']([^"']+)["']$/.exec(argument)?.[1];
    if (literal === undefined) violations.push(`imports a computed name: ${argument}`);
    else if (!isAllowed(plugin, literal)) violations.push(`imports ${literal}`);
  }
  const words = code.replaceAll(/"(?:[^"\\\n]|\\.)*"/g, '""');
  for (const [use] of words.matchAll(RAW_USE)) violations.push(`uses ${use.trim()}`);
  return violations;
}

function isAllowed(plugin: string, specifier: string): boolean {
  if (specifier.startsWith("./")) return true;
  if (specifier === "@backplane/sdk" || specifier.startsWith("@backplane/sdk/")) return true;
  return specifier === SDKS[plugin] || HARMLESS.has(specifier);
}

function providerPlugins(): string[] {
  return readdirSync("plugins").filter((name) => name.startsWith("llm-"));
}

verifies("llm.sdk-only", "provider plugins send HTTP only through their vendor's SDK", () => {
  const plugins = providerPlugins();
  expect(plugins).toEqual(expect.arrayContaining(["llm-anthropic", "llm-echo", "llm-openai"]));
  const problems: string[] = [];
  for (const plugin of plugins) {
    const dir = join("plugins", plugin, "src");
    const files = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((file) =>
      /\.[cm]?[jt]sx?$/.test(file),
    );
    expect(files).not.toEqual([]);
    for (const file of files) {
      const source = readFileSync(join(dir, file), "utf8");
      for (const reason of findViolations(plugin, source)) problems.push(`${plugin}/${file} ${reason}`);
    }
    const manifest = JSON.parse(readFileSync(join("plugins", plugin, "package.json"), "utf8"));
    const allowed = ["@backplane/sdk", ...(SDKS[plugin] === undefined ? [] : [SDKS[plugin]])];
    for (const name of Object.keys(manifest.dependencies ?? {})) {
      if (!allowed.includes(name)) problems.push(`${plugin}/package.json depends on ${name}`);
    }
  }
  expect(problems).toEqual([]);
});

verifies("llm.sdk-only", "the check finds each known way to bypass the SDKs", () => {
  const bad: [string, string][] = [
    ['import { request } from "node:https";', "imports node:https"],
    ['import http from "http";', "imports http"],
    ['import {\n  request,\n} from "undici";', "imports undici"],
    ['import "axios";', "imports axios"],
    ['export { connect } from "node:net";', "imports node:net"],
    ['const x = await import("node:http2");', "imports node:http2"],
    ["const x = await import(name);", "imports a computed name: name"],
    ['import { x } from "../../llm-openai/src/chat.ts";', "imports ../../llm-openai/src/chat.ts"],
    ['import OpenAI from "openai";', "imports openai"],
    ["await fetch(url);", "uses fetch"],
    ["const send = globalThis.fetch;", "uses globalThis"],
    ["const x = fetch;\nx(url)", "uses fetch"],
    ["new WebSocket(url);", "uses WebSocket"],
    ['require("net");', "uses require"],
    ['process.getBuiltinModule("net");', "uses process"],
  ];
  for (const [source, reason] of bad) {
    expect(findViolations("llm-anthropic", source), source).toContain(reason);
  }
});

test("the check ignores comments and messages", () => {
  const good = [
    'import type { Anthropic } from "@anthropic-ai/sdk";',
    'const { Anthropic } = await import("@anthropic-ai/sdk");',
    'import { randomUUID } from "node:crypto";',
    'import { x } from "./x.ts";',
    "// fetch(url) is the SDK's",
    "/** import x from 'http' */",
    'throw new Error("could not fetch (http)");',
  ];
  for (const source of good) expect(findViolations("llm-anthropic", source), source).toEqual([]);
});
