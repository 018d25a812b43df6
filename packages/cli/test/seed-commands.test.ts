/** The commands of requirement cli.seed, each with --json, against a gateway that was started with --strategy. */
import { expect } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { EXIT } from "../src/index.ts";
import { createKernelPluginFolder } from "./support/kernel-plugin.ts";
import { spawnUp } from "./support/spawn-up.ts";

const PARROT_STRATEGY = `
  strategyId: "parrot",
  subscriptions: () => ["strategy.decide.request"],
  async onEvent(event, ctx) {
    const { input } = event.payload.state;
    await ctx.emit("strategy.decide.response", { next: "done", content: "parrot: " + input.text, request_id: event.id },
      { session_id: event.session_id });
  }`;

verifies(
  "cli.seed",
  "runs the required plugin, doctor, config, session and up commands with --json",
  async () => {
    const folder = createKernelPluginFolder("parrot", PARROT_STRATEGY, "strategy");
    const gateway = await spawnUp("--strategy", "parrot", "--json");
    try {
      expect(JSON.parse(gateway.out())).toMatchObject({
        url: expect.stringMatching(/^http/),
        home: gateway.home,
      });
      const early = await gateway.json<{ error: { code: string; message: string } }>(
        "session",
        "chat",
        "s1",
        "-m",
        "hi",
      );
      expect(early).toMatchObject({ exit: EXIT.failed, error: { code: "request.invalid" } });
      const installed = await gateway.json("plugin", "install", folder.dir, "--yes");
      expect(installed).toMatchObject({ exit: EXIT.ok, plugins: [{ name: "parrot", status: "loaded" }] });
      const listed = await gateway.json<{ plugins: { name: string }[] }>("plugin", "list");
      expect(listed.plugins.map(({ name }) => name)).toEqual(
        expect.arrayContaining(["parrot", "strategy-react"]),
      );
      const answered = await gateway.json("session", "chat", "s1", "-m", "hello");
      expect(answered).toMatchObject({
        exit: EXIT.ok,
        runs: [{ strategy: "parrot", output: { content: "parrot: hello" } }],
      });
      const session = await gateway.json<{ entries: { payload: object }[] }>("session", "show", "s1");
      expect(session.entries.at(-1)?.payload).toEqual({ role: "assistant", content: "parrot: hello" });
      for (const key of ["app.a", "app.b.c", "apple"]) await gateway.json("config", "set", key, "1");
      expect(await gateway.json("config", "unset", "app.*", "--yes")).toMatchObject({
        exit: EXIT.ok,
        removed: true,
      });
      const config = await gateway.json<Record<string, unknown>>("config", "list");
      expect(Object.keys(config).filter((key) => key.startsWith("app"))).toEqual(["apple"]);
      const doctor = await gateway.json<{ checks: { name: string }[] }>("doctor", "--timeout", "5");
      expect(doctor.exit).toBe(EXIT.ok);
      expect(doctor.checks.map(({ name }) => name)).toContain("plugin parrot");
    } finally {
      await gateway.dispose();
      folder.remove();
    }
  },
  60_000,
);
