/** A gateway with instrument plugins, and folders with plugins that a test defines. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "@backplane/client";
import type { InstrumentPluginView, Invocation } from "@backplane/contract";
import { afterAll, beforeAll } from "vitest";
import { startTestGateway, type TestGateway } from "../gateway/gateway.ts";

export let base: string;

export let gateway: TestGateway;

export let client: Client;

/** Each test file calls this once. */
export function useInstrumentGateway(): void {
  beforeAll(async () => {
    base = mkdtempSync(join(tmpdir(), "backplane-instruments-"));
    await start();
  });
  afterAll(async () => {
    await gateway.dispose();
    rmSync(base, { recursive: true, force: true });
  });
}

async function start(home?: string): Promise<void> {
  gateway = await startTestGateway(home === undefined ? {} : { home });
  client = createClient({ url: gateway.url, token: gateway.token });
}

/** Starts the gateway again on the same home; the caller has stopped it. */
export async function restart(): Promise<void> {
  await start(gateway.home);
}

export const install = (path: string, more: object = {}) =>
  gateway.http<InstrumentPluginView>("POST", "/v1/instrument-plugins", { path, ...more });

export const list = async () =>
  (await gateway.http<{ items: InstrumentPluginView[] }>("GET", "/v1/instrument-plugins")).body.items;

export const unload = (id: string) => gateway.http("DELETE", `/v1/instrument-plugins/${id}`);

export async function invoke(export_id: string, input: object, more: object = {}): Promise<Invocation> {
  const { body } = await gateway.http<Invocation>("POST", "/v1/invocations?wait=30", {
    export_id,
    input,
    ...more,
  });
  return body;
}

/** Writes a plugin to its own folder. */
export function writePlugin(id: string, changes: object, provider: string): string {
  const folder = join(base, id);
  mkdirSync(join(folder, "META-INF"), { recursive: true });
  const manifest = {
    id,
    name: id,
    version: "1.0.0",
    author: "us",
    description: "For a test.",
    providerClass: "./provider.mjs#Provider",
    ...changes,
  };
  writeFileSync(join(folder, "META-INF/hefty-plugin.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "provider.mjs"), provider);
  return folder;
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await condition())) {
    if (Date.now() > end)
      throw new Error(
        `The condition was still false after a minute: ${condition.toString()}\n${gateway.log()}`,
      );
    await new Promise((done) => setTimeout(done, 100));
  }
}
