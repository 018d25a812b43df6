/** Notes found by meaning: an embedding model that maps a few words to directions replaces a real one. */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Json, JsonObject, MemoryEntry } from "@backplane/contract";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterEach, beforeEach, expect } from "vitest";
import { scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { createMemoryPlugin } from "../src/plugin.ts";
import { queryEvent, writeEvent } from "./memory-events.ts";

const MEANINGS = [/bicycle|bike|cycl/i, /coffee|espresso/i, /./];
const createVector = (text: string, { size, shift = 0 }: Model) => {
  const direction = (MEANINGS.findIndex((words) => words.test(text)) + shift) % size;
  return Array.from({ length: size }, (_, at) => (at === direction ? 2 : 0));
};

interface Model {
  space: string;
  size: number;
  /** A model of the same size with other directions. */
  shift?: number;
}

let dir: string;
let model: Model | "failing" | null;
let requests: string[][];
let config: JsonObject;
let close: () => Promise<void>;

beforeEach(() => {
  dir = createMemoryFolder("memory-");
  model = { space: "openai/small/3", size: 3 };
  requests = [];
  config = {};
});
afterEach(async () => {
  await close();
  rmSync(dir, { recursive: true });
});

async function loadMemory() {
  const service = async (name: string, args: JsonObject): Promise<Json> => {
    expect(name).toBe("embedding.embed");
    const texts = args.texts as string[];
    requests.push(texts);
    if (model === "failing") throw new Error("the model is unavailable");
    if (model === null) return null;
    const chosen = model;
    return { space: chosen.space, vectors: texts.map((text) => createVector(text, chosen)) };
  };
  const plugin = createMemoryPlugin();
  const ctx = scriptedContext({ stateDir: dir, config: () => config, service });
  await plugin.onLoad!(ctx);
  close = async () => {
    await plugin.onUnload!(ctx);
  };
  return {
    ctx,
    async write(text: string, change = {}) {
      await plugin.onEvent!(writeEvent({ text }, change), ctx);
    },
    async query(query: string, change = {}) {
      await plugin.onEvent!(queryEvent(query, 5, change), ctx);
      const hits = ctx.emitted.at(-1)!.payload.hits as MemoryEntry[];
      return hits.map(({ text }) => text);
    },
  };
}

const readSpaces = () => {
  const database = new DatabaseSync(join(dir, "memory.db"), { readOnly: true });
  const rows = database.prepare("select space from vector order by n").all() as { space: string }[];
  database.close();
  return rows.map(({ space }) => space);
};

verifies("memory.store", "finds a note by its meaning, and only in its own project", async () => {
  const memory = await loadMemory();
  await memory.write("My bicycle is red");
  await memory.write("Espresso at noon");
  await expect.poll(readSpaces).toHaveLength(2);
  expect(await memory.query("who likes cycling")).toEqual(["My bicycle is red"]);
  expect(await memory.query("the red espresso")).toEqual(["Espresso at noon", "My bicycle is red"]);
  expect(await memory.query("who likes cycling", { project_id: "proj_other" })).toEqual([]);
  expect(await memory.query("who likes cycling", { org_id: "org_other" })).toEqual([]);
});

verifies("memory.store", "embeds all notes again after the model has changed, and loses none", async () => {
  const memory = await loadMemory();
  for (const text of ["My bicycle is red", "Espresso at noon", "Nothing else"]) await memory.write(text);
  await expect.poll(readSpaces).toHaveLength(3);

  for (model of [
    { space: "openai/other/3", size: 3, shift: 1 },
    { space: "openai/large/5", size: 5 },
  ]) {
    const { space } = model;
    // Old vectors are not compared; words still find their note.
    expect(await memory.query("my bicycle")).toEqual(["My bicycle is red"]);
    await expect.poll(() => [...new Set(readSpaces())]).toEqual([space]);
    expect(readSpaces()).toHaveLength(3);
    expect(await memory.query("who likes cycling")).toEqual(["My bicycle is red"]);
  }
});

verifies("memory.store", "searches by words while the model fails or is switched off", async () => {
  const memory = await loadMemory();
  model = "failing";
  await memory.write("My bicycle is red");
  expect(await memory.query("bicycle")).toEqual(["My bicycle is red"]);
  expect(memory.ctx.logged.some(({ message }) => message.includes("searched by words"))).toBe(true);
  model = null;
  expect(await memory.query("bicycle")).toEqual(["My bicycle is red"]);
  config = { embeddings: false };
  model = { space: "openai/small/3", size: 3 };
  requests = [];
  await memory.write("Espresso at noon");
  expect(await memory.query("espresso")).toEqual(["Espresso at noon"]);
  expect(requests).toEqual([]);
});

verifies("memory.store", "keeps the notes of a file that was written before embeddings existed", async () => {
  const first = await loadMemory();
  await first.write("My bicycle is red");
  await expect.poll(readSpaces).toHaveLength(1);
  await close();
  const database = new DatabaseSync(join(dir, "memory.db"));
  database.exec("drop table vector; pragma user_version = 1");
  database.close();

  const second = await loadMemory();
  expect(await second.query("bicycle")).toEqual(["My bicycle is red"]);
  await expect.poll(readSpaces).toEqual(["openai/small/3"]);
  expect(await second.query("who likes cycling")).toEqual(["My bicycle is red"]);
});
