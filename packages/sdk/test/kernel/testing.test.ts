import { existsSync, rmSync } from "node:fs";
import { defineKernelPlugin, toolOk } from "@backplane/sdk/kernel";
import { testKernelPlugin } from "@backplane/sdk/testing";
import { expect, test } from "vitest";

const plugin = defineKernelPlugin({
  name: "probe",
  version: "1.0.0",
  category: "adapter",
  routes: [{ method: "GET", path: "/a", summary: "", scope: "sessions:read" }],
  subscriptions: () => ["*"],
  async onEvent(event, ctx) {
    if (event.kind === "user.message.received") {
      setTimeout(() => void ctx.emit("x.probe.later", { at: new Date(0) }, event), 1);
    }
    ctx.log.debug({ kind: event.kind, org: event.org_id }, "seen");
  },
  onRequest: async (request, ctx) => ({ status: 200, body: await ctx.service("list", { q: request.query }) }),
});

test("sends events of one project, or of the whole organization", async () => {
  for (const [options, project_id] of [
    [{}, "proj_default"],
    [{ project_id: "proj_a" }, "proj_a"],
    [{ project_id: null }, null],
  ] as const) {
    const run = await testKernelPlugin(plugin, options);
    expect(await run.event("session.started", {})).toMatchObject({ org_id: "org_local", project_id });
    await run.unload();
    rmSync(run.ctx.stateDir, { recursive: true });
  }
});

test("records what a plugin emits and logs, and serves its requests and service calls", async () => {
  const run = await testKernelPlugin(plugin, { org_id: "org_a", services: { list: (args) => [args] } });
  expect(existsSync(run.ctx.stateDir)).toBe(true);
  await run.event("user.message.received", { text: "hi" }, { session_id: "s1" });
  // The bus carries JSON, so a date becomes a string.
  expect(await run.waitFor("x.probe.later")).toMatchObject({
    session_id: "s1",
    payload: { at: "1970-01-01T00:00:00.000Z" },
  });
  expect(await run.waitFor("x.probe.later")).toBe(run.emitted[0]);
  expect(run.logs).toEqual([
    { level: "debug", fields: { kind: "user.message.received", org: "org_a" }, message: "seen" },
  ]);
  expect(await run.request("GET /a", { query: { a: "1" } })).toEqual({
    status: 200,
    body: [{ q: { a: "1" } }],
  });
  expect(await run.health()).toEqual({ status: "ok", summary: "no checks registered" });
  await run.unload();
  rmSync(run.ctx.stateDir, { recursive: true });
});

test("refuses calls that the kernel would refuse", async () => {
  const run = await testKernelPlugin(plugin);
  const { ctx } = run;
  const refusals = [
    ctx.service("none", {}),
    ctx.registerTool({ name: "t", description: "", parameters: {}, run: () => toolOk("") }),
    run.tool("none", {}),
    testKernelPlugin({ ...plugin, name: "Not Kebab" }),
  ];
  const codes = await Promise.all(
    refusals.map((refusal) => refusal.then(String, (error: { code: string }) => error.code)),
  );
  expect(codes).toEqual(["policy.denied", "plugin.invalid", "export.not_found", "plugin.invalid"]);
});
