/** A gateway, folders of tool files to install in it, and calls of their tools over HTTP. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";

export let gateway: TestGateway;

let base: string;

/** A test file calls this once. */
export function useToolFolders(): void {
  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), "backplane-tool-files-"));
    gateway = await startTestGateway();
  });
  afterAll(async () => {
    await gateway.dispose();
    rmSync(base, { recursive: true, force: true });
  });
}

/** Starts the gateway again on the same home; the caller has stopped it. */
export async function restart(): Promise<void> {
  gateway = await startTestGateway({ home: gateway.home });
}

export function writeToolsFolder(name: string, files: Record<string, string>): string {
  const path = join(base, name);
  mkdirSync(join(path, "tools"), { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

export interface EndedCall {
  status: string;
  error: { code: string; message: string } | null;
  tool_result: {
    content: { type: string; text?: string }[];
    status?: string;
    yield_to_user?: boolean;
  } | null;
}

export async function call(export_id: string, input: unknown = {}): Promise<EndedCall> {
  const { body } = await gateway.http<EndedCall>("POST", "/v1/invocations?wait=60", { export_id, input });
  return body;
}

export async function callForText(export_id: string, input?: unknown): Promise<string | undefined> {
  return (await call(export_id, input)).tool_result?.content[0]?.text;
}

export const toolSource = (text: string) =>
  `export default { defaultRiskLevel: "low", execute: () => ({ content: ${JSON.stringify(text)} }) };\n`;

export async function cli(...args: string[]) {
  const result = await gateway.cli(...args);
  expect(result.code, `${args.join(" ")}\n${result.stderr}`).toBe(0);
  return result;
}

export interface ToolList {
  items: {
    export_id: string;
    package_id: string;
    description: string;
    export: { tool: Record<string, unknown> };
  }[];
}
