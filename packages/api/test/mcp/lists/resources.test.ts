import type { ServerInfo } from "@backplane/ports";
import { expect, test } from "vitest";
import { createPrompts } from "../../../src/mcp/lists/prompts.ts";
import { createResources, matchesTemplate } from "../../../src/mcp/lists/resources.ts";
import type { ServerLists } from "../../../src/mcp/lists/server-lists.ts";

const server = (name: string): ServerInfo => ({
  name,
  binding_id: `bind_${name}`,
  package_id: `acme/${name}`,
  capabilities: {},
  instructions: null,
  tools: [],
});
const [a, b] = [server("a"), server("b")];
const LISTS: Record<string, object[]> = {
  resources: [
    { server: a, item: { uri: "x://one", name: "one of a" } },
    { server: b, item: { uri: "x://one", name: "one of b" } },
    { server: b, item: { uri: "x://two", name: "two" } },
  ],
  resourceTemplates: [{ server: b, item: { uriTemplate: "y://{id}/data", name: "t" } }],
  prompts: [
    { server: a, item: { name: "greet" } },
    { server: b, item: { name: "greet" } },
  ],
};
const lists = {
  list: async (_c: unknown, _v: unknown, kind: string) => LISTS[kind],
} as unknown as ServerLists;
const caller = {} as never;
const everything = { server: null };

test("serves a URI of two servers from the first one and lists the other", async () => {
  const resources = createResources(lists);
  const page = await resources.list(caller, everything, undefined);
  expect(page.resources).toEqual([
    {
      uri: "x://one",
      name: "one of a",
      _meta: { "backplane/server": "a", "backplane/also_offered_by": ["b"] },
    },
    { uri: "x://two", name: "two", _meta: { "backplane/server": "b" } },
  ]);
  expect(await resources.findServer(caller, everything, "x://one", false)).toBe(a);
  expect(await resources.findServer(caller, everything, "y://7/data", false)).toBe(b);
  await expect(resources.findServer(caller, everything, "z://1", false)).rejects.toMatchObject({
    code: -32002,
  });
  await expect(resources.findServer(caller, everything, "z://1", true)).rejects.toMatchObject({
    code: -32602,
  });
  expect(await resources.findServer(caller, { server: b }, "z://1", true)).toBe(b);
});

test("prefixes prompts with the server name so that none hides another", async () => {
  const prompts = createPrompts(lists);
  const page = await prompts.list(caller, everything, undefined);
  expect((page.prompts as { name: string }[]).map(({ name }) => name)).toEqual([
    "mcp_a_greet",
    "mcp_b_greet",
  ]);
  expect(await prompts.find(caller, everything, "mcp_b_greet")).toEqual({ server: b, name: "greet" });
  expect(await prompts.find(caller, { server: a }, "greet")).toEqual({ server: a, name: "greet" });
  await expect(prompts.find(caller, everything, "greet")).rejects.toMatchObject({ code: -32602 });
});

test("matches URIs against templates, within a second even for a template of 200 expressions", () => {
  expect(matchesTemplate("y://{id}/data", "y://7/data")).toBe(true);
  expect(matchesTemplate("y://{id}/data", "y://7/8/data")).toBe(false);
  expect(matchesTemplate("y://{+path}", "y://7/8/data")).toBe(true);
  expect(matchesTemplate("y://{id}", "y://{id}")).toBe(true);
  expect(matchesTemplate("y://x", "y://x")).toBe(true);
  expect(matchesTemplate("y://x", "y://xx")).toBe(false);
  expect(matchesTemplate(7, "y://x")).toBe(false);
  const started_at = performance.now();
  expect(matchesTemplate(`${"{a}".repeat(200)}!`, "x".repeat(10_000))).toBe(false);
  expect(performance.now() - started_at).toBeLessThan(1_000);
});
